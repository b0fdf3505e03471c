# What scripts/setup.sh and scripts/windows_dependencies.sh share: messages, Debian packages, and Debian's source
# packages, which apt fetches and whose signatures it checks. Sourced, not run.
script=$(basename "$0" .sh)
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
cache_dir="${XDG_CACHE_HOME:-$HOME/.cache}/vkformer"

exec 3>&2   # so that what is said reaches the person while a step's own output goes to a log
say() { printf '%s: %s\n' "$script" "$*" >&3; }
die() {
    say "$@"
    exit 1
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        die "this needs root and there is no sudo. Run as root: $*"
    fi
}

version_of() { dpkg-query -W -f='${Version}' "$1" 2>/dev/null || true; }

# Those of the packages that are not installed, one a line.
missing_of() {
    local package installed
    installed=$(dpkg-query -W -f='${db:Status-Abbrev} ${Package}\n' "$@" 2>/dev/null | sed -n 's/^.i  *//p' || true)
    for package in "$@"; do
        grep -qx -- "$package" <<<"$installed" || echo "$package"
    done
}

# The Debian mirror that this machine's apt already uses: from its package lists, or where there are none, its sources.
debian_mirror() {
    local mirror VERSION_CODENAME=""
    mirror=$(apt-get indextargets --format '$(CREATED_BY) $(ORIGIN) $(LABEL) $(REPO_URI)' 2>/dev/null |
        sed -n 's/^Packages Debian Debian //p' | head -n 1)
    if [ -z "$mirror" ]; then
        eval "$(grep '^VERSION_CODENAME=' /etc/os-release)"
        mirror=$(apt-get indextargets --no-release-info \
            --format '$(CREATED_BY) $(RELEASE) $(COMPONENT) $(REPO_URI)' 2>/dev/null |
            sed -n "s/^Packages $VERSION_CODENAME main //p" | head -n 1)
    fi
    echo "$mirror"
}

# The mirror of Debian's security updates that this machine's apt uses; empty where it uses none.
security_mirror() {
    apt-get indextargets --format '$(CREATED_BY) $(ORIGIN) $(LABEL) $(REPO_URI)' 2>/dev/null |
        sed -n 's/^Packages Debian Debian-Security //p' | head -n 1
}

# open_suite WORK SUITE [security] [binaries] [OPTION…]: sets own_apt, an apt-get that sees this suite's source packages,
# with lists and cache of its own in WORK; those of the machine stay as they are. `security`: also the security updates
# of the suite; `binaries`: also its binary packages. Options are apt-get's.
open_suite() {
    local work=$1 suite=$2 mirror signed_by="" security=""
    shift 2
    mirror=$(debian_mirror)
    if [ -z "$mirror" ]; then
        say "apt's configuration names no Debian mirror to fetch source packages from"
        return 1
    fi
    mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/source" "$work/empty"
    [ -e "$keyring" ] && signed_by="[signed-by=$keyring] "
    echo "deb-src $signed_by$mirror $suite main" >"$work/sources.list"
    case " $* " in *" binaries "*) echo "deb $signed_by$mirror $suite main" >>"$work/sources.list" ;; esac
    case " $* " in *" security "*) security=$(security_mirror) ;; esac
    if [ -n "$security" ]; then
        echo "deb-src $signed_by$security $suite-security main" >>"$work/sources.list"
    fi
    own_apt=(apt-get -q -o "Dir::Etc::SourceList=$work/sources.list" -o "Dir::Etc::SourceParts=$work/empty"
        -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache" -o Acquire::Retries=3 -o APT::Sandbox::User=
        -o APT::Get::List-Cleanup=0)
    while [ $# != 0 ]; do
        case $1 in security | binaries) shift ;; *) break ;; esac
    done
    own_apt+=("$@")
    "${own_apt[@]}" update
}

# fetch_source WORK SUITE PACKAGE VERSION [OPTION…]: the source package in WORK/source/PACKAGE, of that upstream version
# whatever Debian's revision is. Options are dpkg-source's. After open_suite.
fetch_source() {
    local work=$1 suite=$2 package=$3 version=$4
    shift 4
    local files="$work/source/$package.files" dsc
    rm -rf "$files" "$work/source/$package"
    mkdir -p "$files"
    # A mirror may lag behind with the security updates: what the release itself has is there.
    (cd "$files" && "${own_apt[@]}" --download-only source "$package") || {
        say "the newest source package $package is not to be had, trying the one of the release"
        (cd "$files" && "${own_apt[@]}" --download-only source "$package/$suite") || return 1
    }
    dsc=$(find "$files" -name "${package}_$version*.dsc" | head -n 1)
    if [ -z "$dsc" ]; then
        say "$suite has $package $(find "$files" -name '*.dsc' -printf '%f') where version $version is wanted"
        return 1
    fi
    dpkg-source --no-check "$@" -x "$dsc" "$work/source/$package"
}
