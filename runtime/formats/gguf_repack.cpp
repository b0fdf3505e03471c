// SPDX-License-Identifier: MIT
#include "formats/gguf_repack.hpp"

#include <array>
#include <bit>
#include <cassert>
#include <cstring>

#include "core/block_format.hpp"
#include "core/dtype.hpp"

namespace vkformer::formats {
namespace {

using Bytes = std::span<const std::byte>;
using Values = std::array<std::int8_t, 256>;

constexpr std::size_t kElements = 256;
constexpr std::uint32_t kIq2Xxs = 16, kIq2Xs = 17, kIq3Xxs = 18, kIq1S = 19, kIq3S = 21, kIq2S = 22, kIq1M = 29,
                        kTq1 = 34, kTq2 = 35;
constexpr std::size_t kQ6Bytes = 210, kQ4Bytes = 18, kQ4Elements = 32;

/// Eight elements of a type of one or two bits: their row of the grid, the signs (of one bit: of all, what is added to each), s.
struct GridRow {
    std::uint32_t row, signs, scale;
};

/// What the numbers of a block need besides its bytes.
struct Context {
    GridRow (*row_of)(Bytes, std::size_t);
    float scale;
    /// Rows of eight levels, 0 to 2.
    std::array<std::array<std::uint8_t, 8>, 2048> grid;
};

// Four magnitudes in an entry, three bits each, the first in the lowest: which of eight. The grids of llama.cpp (ggml-common.h, MIT), as
// gguf-py (quants.py) has them.
constexpr std::array<std::uint16_t, 256> kIq3XxsGrid = {
    0x0000, 0x0002, 0x0004, 0x0009, 0x000b, 0x000f, 0x0010, 0x0012, 0x0019, 0x0022, 0x003b, 0x003d, 0x0041, 0x0043,
    0x0048, 0x004a, 0x0051, 0x0055, 0x0058, 0x005a, 0x0061, 0x006c, 0x0078, 0x0080, 0x0082, 0x0084, 0x0089, 0x0090,
    0x0092, 0x0099, 0x009b, 0x009f, 0x00a9, 0x00af, 0x00bd, 0x00c1, 0x00c7, 0x00c8, 0x00ca, 0x00d5, 0x00f8, 0x010b,
    0x011f, 0x0124, 0x012f, 0x013b, 0x013d, 0x0141, 0x0147, 0x015a, 0x016a, 0x019d, 0x01b4, 0x01c8, 0x01cc, 0x01ce,
    0x01e3, 0x01f1, 0x0201, 0x0203, 0x0208, 0x020a, 0x0211, 0x0213, 0x0218, 0x021a, 0x021c, 0x0227, 0x0228, 0x0240,
    0x0242, 0x0249, 0x0250, 0x0252, 0x0281, 0x0283, 0x0288, 0x028a, 0x0291, 0x0298, 0x02ba, 0x02c0, 0x02c2, 0x02d0,
    0x02d9, 0x02e6, 0x02f6, 0x0301, 0x0305, 0x0328, 0x0350, 0x0354, 0x0366, 0x0379, 0x0385, 0x03d2, 0x03e0, 0x0400,
    0x0402, 0x0409, 0x040b, 0x0410, 0x0412, 0x0416, 0x0419, 0x0422, 0x0441, 0x0443, 0x0445, 0x0448, 0x044a, 0x0451,
    0x0458, 0x0473, 0x0477, 0x0478, 0x0480, 0x0482, 0x0489, 0x048f, 0x0490, 0x0492, 0x049f, 0x04a0, 0x04ad, 0x04c1,
    0x04c8, 0x04cc, 0x04f8, 0x04fc, 0x051d, 0x052b, 0x0543, 0x0557, 0x0561, 0x057c, 0x05c1, 0x05c3, 0x05ce, 0x05e5,
    0x0601, 0x0608, 0x060a, 0x0611, 0x0613, 0x0628, 0x0635, 0x063a, 0x0640, 0x0642, 0x0650, 0x0659, 0x0664, 0x0666,
    0x0681, 0x0683, 0x0688, 0x0695, 0x06aa, 0x06ba, 0x06c9, 0x06db, 0x0718, 0x0727, 0x073a, 0x0740, 0x0746, 0x0752,
    0x076d, 0x078c, 0x079e, 0x07b3, 0x07db, 0x07f0, 0x0804, 0x080f, 0x081d, 0x081f, 0x082b, 0x082f, 0x087c, 0x0890,
    0x089f, 0x08a0, 0x08b0, 0x08b6, 0x08c7, 0x08e5, 0x0904, 0x0929, 0x0934, 0x0955, 0x0963, 0x0978, 0x09c5, 0x09c8,
    0x09ca, 0x09d8, 0x0a0a, 0x0a21, 0x0a38, 0x0a40, 0x0a46, 0x0a56, 0x0a6d, 0x0a8c, 0x0a9a, 0x0aba, 0x0ac2, 0x0aeb,
    0x0b08, 0x0b13, 0x0b17, 0x0b3a, 0x0b42, 0x0b59, 0x0ba8, 0x0bd4, 0x0be2, 0x0c14, 0x0c24, 0x0c26, 0x0c34, 0x0c51,
    0x0c71, 0x0c8f, 0x0cb4, 0x0cd8, 0x0cde, 0x0d24, 0x0d45, 0x0d6a, 0x0d9b, 0x0dc3, 0x0dd1, 0x0e03, 0x0e05, 0x0e07,
    0x0e08, 0x0e1a, 0x0e2a, 0x0e56, 0x0e60, 0x0e8a, 0x0ea5, 0x0eaa, 0x0ec0, 0x0ecd, 0x0edb, 0x0ef0, 0x0f11, 0x0f21,
    0x0f40, 0x0f42, 0x0f54, 0x0f98,
};
constexpr std::array<std::uint16_t, 512> kIq3SGrid = {
    0x0000, 0x0001, 0x0002, 0x0005, 0x0007, 0x0008, 0x0009, 0x000a, 0x000c, 0x000e, 0x0010, 0x0011, 0x0015, 0x001b,
    0x0020, 0x0022, 0x0025, 0x0027, 0x0029, 0x002b, 0x0030, 0x0032, 0x0039, 0x003c, 0x003f, 0x0040, 0x0041, 0x0042,
    0x0044, 0x0048, 0x0049, 0x004d, 0x0050, 0x0053, 0x0057, 0x0059, 0x005d, 0x0064, 0x0071, 0x0075, 0x007a, 0x0080,
    0x0081, 0x0085, 0x0087, 0x0088, 0x008b, 0x008e, 0x0091, 0x0095, 0x0098, 0x009c, 0x00a2, 0x00a5, 0x00a7, 0x00a9,
    0x00ab, 0x00b8, 0x00bb, 0x00c3, 0x00c9, 0x00cd, 0x00d0, 0x00d2, 0x00d9, 0x00db, 0x00de, 0x00e4, 0x00e8, 0x00ea,
    0x00f7, 0x00f9, 0x00fd, 0x0100, 0x010b, 0x010f, 0x0111, 0x0114, 0x011a, 0x0120, 0x0123, 0x0129, 0x0138, 0x0142,
    0x0144, 0x0150, 0x0152, 0x0156, 0x015b, 0x0161, 0x0165, 0x0167, 0x0176, 0x017b, 0x0186, 0x0189, 0x018b, 0x0199,
    0x01aa, 0x01b9, 0x01c0, 0x01c2, 0x01c4, 0x01d0, 0x01d2, 0x01d6, 0x01db, 0x01e8, 0x01ec, 0x0200, 0x0201, 0x0202,
    0x0204, 0x0208, 0x0209, 0x020b, 0x020d, 0x020f, 0x0210, 0x0212, 0x0219, 0x021c, 0x021e, 0x022c, 0x022e, 0x0231,
    0x023a, 0x0240, 0x0241, 0x0243, 0x0246, 0x0248, 0x024c, 0x0251, 0x0258, 0x025b, 0x0261, 0x0268, 0x026a, 0x0278,
    0x027e, 0x0280, 0x028a, 0x028d, 0x028f, 0x0290, 0x0294, 0x029a, 0x02a0, 0x02a3, 0x02ad, 0x02b0, 0x02ba, 0x02c1,
    0x02c4, 0x02c7, 0x02c8, 0x02cb, 0x02d1, 0x02d7, 0x02d8, 0x02dc, 0x02e1, 0x02f2, 0x02f8, 0x0303, 0x0305, 0x030a,
    0x030c, 0x0319, 0x031b, 0x0322, 0x0326, 0x0328, 0x032c, 0x0341, 0x0348, 0x034b, 0x0351, 0x0358, 0x035a, 0x0369,
    0x0390, 0x0394, 0x0397, 0x03a4, 0x03a6, 0x03c1, 0x03c3, 0x03c8, 0x03ca, 0x03d1, 0x03dd, 0x03e1, 0x03f2, 0x03f8,
    0x0400, 0x0401, 0x0403, 0x0405, 0x0407, 0x0408, 0x040a, 0x040c, 0x040e, 0x0411, 0x0413, 0x0417, 0x0418, 0x041a,
    0x0421, 0x0423, 0x0425, 0x0428, 0x042a, 0x0437, 0x0438, 0x043b, 0x043d, 0x0440, 0x0442, 0x0448, 0x044b, 0x044f,
    0x0452, 0x0455, 0x0459, 0x045c, 0x0462, 0x0469, 0x0481, 0x0484, 0x0487, 0x0491, 0x0493, 0x0498, 0x049f, 0x04a1,
    0x04ab, 0x04af, 0x04b9, 0x04bc, 0x04c0, 0x04c2, 0x04c5, 0x04c9, 0x04d2, 0x04d4, 0x04d9, 0x04db, 0x04e2, 0x04e8,
    0x04f6, 0x0501, 0x0507, 0x0510, 0x0513, 0x051a, 0x051d, 0x0521, 0x053a, 0x053d, 0x0544, 0x0549, 0x0552, 0x055f,
    0x0560, 0x056b, 0x0578, 0x0580, 0x0582, 0x0587, 0x0591, 0x05ad, 0x05b1, 0x05c5, 0x05c9, 0x05d6, 0x05d8, 0x05e3,
    0x05e8, 0x0602, 0x0609, 0x060b, 0x060d, 0x060f, 0x0612, 0x0619, 0x061b, 0x061d, 0x0622, 0x0624, 0x0627, 0x0629,
    0x0633, 0x0639, 0x0641, 0x0643, 0x0645, 0x064c, 0x0651, 0x0653, 0x0660, 0x0670, 0x067a, 0x067e, 0x0680, 0x068a,
    0x0690, 0x069a, 0x069c, 0x06a8, 0x06c1, 0x06c8, 0x06cc, 0x06d1, 0x06d3, 0x06d7, 0x06d8, 0x06e1, 0x06e3, 0x06e7,
    0x06ed, 0x06fb, 0x0703, 0x0709, 0x070e, 0x0712, 0x0719, 0x072a, 0x0730, 0x0734, 0x0741, 0x0748, 0x074a, 0x0755,
    0x075a, 0x0764, 0x076e, 0x077b, 0x078e, 0x07a1, 0x07c1, 0x07c3, 0x07d0, 0x07d2, 0x07dd, 0x0800, 0x0804, 0x080a,
    0x0810, 0x0814, 0x0817, 0x081a, 0x0821, 0x0828, 0x0838, 0x0842, 0x0847, 0x0849, 0x084b, 0x0852, 0x0858, 0x085d,
    0x0863, 0x0869, 0x086d, 0x0881, 0x0883, 0x0888, 0x088d, 0x0891, 0x089b, 0x08a0, 0x08af, 0x08b2, 0x08b8, 0x08c4,
    0x08c9, 0x08cb, 0x08d0, 0x08d2, 0x08d9, 0x08dd, 0x0900, 0x0902, 0x0914, 0x091f, 0x0920, 0x0939, 0x0945, 0x0947,
    0x0951, 0x0972, 0x098b, 0x099c, 0x09b0, 0x09c8, 0x09cd, 0x09d8, 0x09e3, 0x09e9, 0x0a02, 0x0a08, 0x0a0c, 0x0a12,
    0x0a20, 0x0a24, 0x0a27, 0x0a2a, 0x0a36, 0x0a3c, 0x0a41, 0x0a43, 0x0a45, 0x0a4a, 0x0a51, 0x0a5a, 0x0a7a, 0x0a80,
    0x0a89, 0x0a93, 0x0a98, 0x0a9e, 0x0aab, 0x0ac2, 0x0ac7, 0x0ac8, 0x0ad7, 0x0ae4, 0x0ae9, 0x0af5, 0x0afb, 0x0b01,
    0x0b04, 0x0b10, 0x0b1a, 0x0b26, 0x0b4a, 0x0b56, 0x0b69, 0x0b6b, 0x0ba2, 0x0bc2, 0x0bc4, 0x0bd2, 0x0c09, 0x0c0b,
    0x0c0d, 0x0c19, 0x0c1b, 0x0c30, 0x0c40, 0x0c50, 0x0c57, 0x0c74, 0x0c8a, 0x0c9c, 0x0ca2, 0x0cad, 0x0cb2, 0x0cb8,
    0x0cc0, 0x0ccc, 0x0cd1, 0x0ce0, 0x0d15, 0x0d23, 0x0d32, 0x0d40, 0x0d43, 0x0d5c, 0x0d70, 0x0d85, 0x0da0, 0x0dc9,
    0x0dcb, 0x0e00, 0x0e04, 0x0e07, 0x0e10, 0x0e12, 0x0e1e, 0x0e20, 0x0e2c, 0x0e32, 0x0e42, 0x0e49, 0x0e54, 0x0e63,
    0x0e65, 0x0e81, 0x0e84, 0x0e88, 0x0e8e, 0x0e91, 0x0e98, 0x0ea9, 0x0ec2, 0x0eda, 0x0edd, 0x0eeb, 0x0f01, 0x0f05,
    0x0f0b, 0x0f10, 0x0f28, 0x0f52, 0x0f62, 0x0f82, 0x0f99, 0x0fc0,
};

// Those of the types of one and two bits, from there, too. A row is eight levels of three, the first the lowest digit of a number to base
// 3; bit n is set where the grid has the row n. Rows are counted in the order of their numbers.
constexpr std::uint32_t kGridNumbers = 6561;
using GridBits = std::array<std::uint64_t, (kGridNumbers + 63) / 64>;
constexpr GridBits kIq2XxsGrid = {
    0x4141441055141555, 0x0000100044140400, 0x0040001400400400, 0x1050000004000000, 0x4004140100114140,
    0x0500001000400450, 0x0001000050000010, 0x4004144100004000, 0x0400000400001414, 0x0000000000040000,
    0x0000000000100400, 0x0010100414000000, 0x1001040011040040, 0x0000000100404000, 0x0000000004010000,
    0x0000400440041000, 0x0000100000000004, 0x1000400000001000, 0x0000000000000000, 0x0040000004000105,
    0x0000000000110000, 0x0000000001000000, 0x0414000000000040, 0x0000050100010000, 0x0000001010000000,
    0x0000000000500000, 0x0000414000000000, 0x0040000000004001, 0x0000004000040000, 0x0000000000000000,
    0x0000040040000040, 0x0000000004000000, 0x0000000000000000, 0x0000000001000000, 0x0110104144105000,
    0x0000400010000414, 0x0040400000440400, 0x4000000100404000, 0x0010000000010010, 0x0000001004000010,
    0x0000000100000000, 0x0414000000000000, 0x0000000000011000, 0x0401100000000004, 0x0004000000000000,
    0x0050441000040000, 0x0100000104000000, 0x0000000000040000, 0x0000000000000001, 0x0000000000000040,
    0x0001000001400000, 0x0400000000000000, 0x0000000100000000, 0x0400000004100400, 0x0040000000000000,
    0x0004000000000000, 0x0000000000000000, 0x0001000001000041, 0x0040000000004000, 0x0000400000000000,
    0x0011000000001000, 0x0000000000000000, 0x0400000000001400, 0x0000000000000000, 0x0000000000000000,
    0x0000000000000001, 0x0000000000000000, 0x0000000000000000, 0x0004000041400000, 0x0040040000004000,
    0x0000000000000004, 0x0000000000000004, 0x0040001000441400, 0x0400000004000000, 0x0004000010000000,
    0x4000000001000040, 0x0000000000000000, 0x0000000000010000, 0x0000010000000000, 0x0104000000000000,
    0x0100000000000410, 0x0040000000004000, 0x0001000000000000, 0x0040000400000000, 0x0000000000000001,
    0x0000000001000000, 0x0000000000000000, 0x0000000000000000, 0x0100000000001000, 0x0000000000000000,
    0x0000000000000000, 0x0000100000000400, 0x0000000100000004, 0x0000040000000000, 0x0000000000000000,
    0x0000000000000400, 0x0000000000000000, 0x0000000000000000, 0x0000000000000000, 0x0000000000040000,
    0x0000000000000004, 0x0000000000000000, 0x0000000000000000,
};
constexpr GridBits kIq2XsGrid = {
    0x1541455551555555, 0x4145505555540145, 0x4010515400010510, 0x5550000101000441, 0x0004140115154145,
    0x0404010500414550, 0x0005100041400000, 0x1105554000004000, 0x0540400010010414, 0x0010400000040001,
    0x0000000104000100, 0x4550515554011000, 0x1051540001054041, 0x5000500100004140, 0x0000010000400011,
    0x1001450041455000, 0x0100004140000004, 0x0400400000000000, 0x0000000000010000, 0x0400004004000505,
    0x0000000000110000, 0x0000000000000004, 0x5555000000000040, 0x0400010000414010, 0x0010001040001050,
    0x0000010000100000, 0x4000414400000400, 0x0040000000000001, 0x1000000010040000, 0x0000000001000100,
    0x0000040141100000, 0x0000000400100001, 0x0000010010000000, 0x0144000000001001, 0x1105554145555000,
    0x0500414550000414, 0x0141404000440001, 0x4000000000000140, 0x0010000414014515, 0x0000041001050001,
    0x4000010100400000, 0x0414000000000010, 0x0000000101011000, 0x0040004100001004, 0x0000000000400000,
    0x1041455000000000, 0x4140000004000105, 0x0000000000050004, 0x0000001000000040, 0x0004040105400000,
    0x0000410100004010, 0x0000001040000000, 0x0000100000001000, 0x0000404000400404, 0x0140100000010000,
    0x0000000000000000, 0x4000004000000000, 0x0100101001000041, 0x0000000000005000, 0x0010000000000000,
    0x4001000100000004, 0x0000000000000000, 0x0000000110000400, 0x0000000000001000, 0x0000001000000000,
    0x0000000001000000, 0x0000000000000400, 0x0010100000000400, 0x0415010515400000, 0x0001155000005000,
    0x0100000000041004, 0x0001400000000400, 0x0040001000541441, 0x0100000004000040, 0x0400004000000000,
    0x1000000100000000, 0x0014010000040004, 0x0000000000040400, 0x0004000000000000, 0x0105100404100000,
    0x0000010001000400, 0x0001000000100001, 0x0400000000000000, 0x0000004400004000, 0x0000000000001041,
    0x0014000000001000, 0x0000000100000000, 0x0400000000000000, 0x0000000400000000, 0x0000000000000100,
    0x0000001000000010, 0x0000000404014500, 0x4000000000010000, 0x0001144000000010, 0x0004000100000010,
    0x4000000000400000, 0x0000000000000000, 0x0000000000000000, 0x0040000400004000, 0x1040000000000045,
    0x0500000000000004, 0x0000050000000000, 0x0000000100010000,
};
constexpr GridBits kIq2SGrid = {
    0x1555455551555555, 0x5545505155551105, 0x5010515414150514, 0x5550101111000455, 0x5145541555555545,
    0x5414555514555550, 0x1451000455401051, 0x1155154000105004, 0x0540010110515555, 0x0040401051440455,
    0x0000100510140100, 0x4551515554004000, 0x5555541451151555, 0x5000145505155545, 0x0414000504414114,
    0x1455551455455000, 0x5505155540105154, 0x0514400010500414, 0x4000001000041401, 0x0140105154045155,
    0x0010500414550000, 0x1000041004000010, 0x5154000000000400, 0x0011010405415115, 0x1401050540415054,
    0x0104510010100004, 0x0514554400050000, 0x1440001050041455, 0x0000110004140105, 0x0004000400010500,
    0x1050001411000000, 0x0004150000400000, 0x0000100000000000, 0x0140040000004004, 0x1555554555555000,
    0x5505554550514414, 0x1541401051541455, 0x4000005004145104, 0x4550515554555555, 0x1051541455550041,
    0x5004145500004150, 0x5514100000400010, 0x0001040041455051, 0x0100004140105154, 0x0000400010500040,
    0x1555455000000000, 0x5540005154145555, 0x0010500414550515, 0x1400041401051440, 0x5154145555000000,
    0x0414550000414010, 0x1400000040001050, 0x0000000000110004, 0x0040414010515400, 0x0040001050000001,
    0x1000100000000000, 0x4400004000000000, 0x1040041451051545, 0x0004140105154000, 0x0400010400100010,
    0x1451010000000100, 0x0000004000105004, 0x0010001010000414, 0x0000000000040004, 0x0000105000100000,
    0x0010010000100000, 0x0000000000004000, 0x0000000400000000, 0x5414114515404000, 0x1455450001411011,
    0x1140004140005154, 0x0000000010500015, 0x0041455011555400, 0x4140105154000105, 0x0010500001010000,
    0x1000000000000050, 0x0000000105000141, 0x4000010000014040, 0x0004000000000000, 0x5545010000400500,
    0x0000414010515410, 0x0000101050001411, 0x0000100004140000, 0x4010515440000000, 0x1050004001000041,
    0x1100000000004000, 0x0010001000000010, 0x0001100041400000, 0x0000005000000000, 0x0000000000001100,
    0x0040000000000000, 0x0000105410111100, 0x0010000001040000, 0x4004100000000400, 0x5100014400000014,
    0x0100000000400010, 0x0000000010001040, 0x0000000000000000, 0x0040000000000004, 0x0100000000000040,
    0x0400004000000000, 0x0000011401400000, 0x0000000100001000,
};
constexpr GridBits kIq1Grid = {
    0x514202a085142555, 0xa28a2086a8314508, 0x14508514202a081a, 0xa005152545442082, 0x8208001888208202,
    0x0aaabb88a02a03a0, 0xaa0a0022000baa90, 0x4508514008a0828c, 0x0851421450808821, 0x2a8008a09808308a,
    0x4248208514214508, 0x20a0c22c01450855, 0xa2aaa8242a00268a, 0x0028280808afe208, 0xa82028aa284202a0,
    0xa8bab9089b0a2080, 0x3aaaaea289aeca20, 0xb80e82bbbaeaeb7c, 0x2202920ed3caba22, 0x820aba8aa8202200,
    0x3ba2e04a2a000802, 0x81408100a22b2022, 0x8514012208288aaa, 0x5421450920821550, 0x203aa8230208a085,
    0xa208514254208284, 0x082a021450950820, 0x200248a08082a8b8, 0xab2802a268a28208, 0x083082082085082a,
    0xa085142145004045, 0x8229014500514200, 0x1430a1082a828a00, 0x2145082882145005, 0x2aaa200202208514,
    0xa828ae8ab1122000, 0x0a820070a8aaa1ba, 0x8200840222280208, 0xaa2ab0eaa0804800, 0xa7daea22ba8b20c2,
    0xaa2ab092a86e8b8b, 0x48202a0c448a8b72, 0x20aa082a8a284084, 0xa09aafa222a2ccc8, 0xa82a00020002a8e8,
    0xa2a28ba080200088, 0xba0a328280a0ba28, 0x2ba0a2ebfebab8be, 0x00a2ea280a8a08a2, 0xdeeaa4fa0c0232a1,
    0xeb7ebe8d2ea82bef, 0xdeba7de6bf7ff7fa, 0x12fa26bfff27fb69, 0x0ebeaa10228ae1e9, 0xae820ba8b208aa84,
    0x62048083e924baff, 0x002ba40aa8f2682c, 0x0012aae208082a02, 0x82c920a60a2a8202, 0x8c00a20028829089,
    0x6c00080882001380, 0x8abea602bbaaaa8a, 0xd02e976b8002caa0, 0xdeaa2e108210e9b2, 0x820a0004a5d11528,
    0x20a1010820828a00, 0xa0843222ba39aa82, 0x0262a28a00188009, 0xac21450051441481, 0x20aa085142145082,
    0x45082a120a87aa28, 0x08514208a0051421, 0x22a240a002200145, 0x8a6a08a208008800, 0x0a200080aaaab86e,
    0x5044082122c8e282, 0x8515208a09514214, 0x2a2aaa080a861450, 0x21450851420a0080, 0xe2085142145000a8,
    0x082a82180a828820, 0x0a028bb08aaaa2aa, 0x0aaa80822820aa2a, 0x220288a900280828, 0xba8a08b8280bbea0,
    0xaef8a4baffaeb24b, 0x30a0b668285220aa, 0x6a220828020a80e6, 0x2baaaa020a208062, 0x0808a2a0a9a2eaaa,
    0x0e8200228aa02010, 0x400aa08514214500, 0x4a0006a921450851, 0x440d1000a50802aa, 0x0514214508288214,
    0x0020f2ac82820800, 0x20ba0a280aaa0000, 0x280948820002a2ea, 0x0051454b110014e9, 0x5142145002a80145,
    0x400a288808248808, 0x02a0051401450008, 0x0000000145085140,
};

std::uint32_t byte_at(Bytes bytes, std::size_t i) { return std::to_integer<std::uint32_t>(bytes[i]); }
std::uint32_t nibble_at(Bytes bytes, std::size_t i) { return byte_at(bytes, i / 2) >> i % 2 * 4 & 15u; }
bool bit_at(Bytes bytes, std::size_t i) { return (byte_at(bytes, i / 8) >> i % 8 & 1u) != 0; }
bool bit_of(std::uint32_t bits, std::size_t i) { return (bits >> i & 1u) != 0; }
std::uint32_t pair_at(Bytes bytes, std::size_t i) { return byte_at(bytes, 2 * i) | byte_at(bytes, 2 * i + 1) << 8; }
std::uint16_t half_bits(Bytes bytes) { return static_cast<std::uint16_t>(byte_at(bytes, 0) | byte_at(bytes, 1) << 8); }

void put_half(std::uint16_t bits, std::byte* out) {
    out[0] = static_cast<std::byte>(bits & 255u);
    out[1] = static_cast<std::byte>(bits >> 8);
}

/// A block of 256 as core/block_format.cpp reads q6_k: lower nibbles, upper pairs of bits, 16 scales, d. Values −32 to 31.
void put_q6_k(const Values& values, std::span<const std::int8_t, 16> scales, std::uint16_t d, std::byte* out) {
    std::memset(out, 0, kQ6Bytes);
    for (std::size_t i = 0; i < kElements; ++i) {
        const auto quant = static_cast<std::uint32_t>(values[i] + 32);
        out[i / 128 * 64 + i % 64] |= static_cast<std::byte>((quant & 15u) << i / 64 % 2 * 4);
        out[128 + i / 128 * 32 + i % 32] |= static_cast<std::byte>(quant >> 4 << i % 128 / 32 * 2);
    }
    std::memcpy(out + 192, scales.data(), scales.size());
    put_half(d, out + 208);
}

/// Eight blocks of 32 of q4_0. Values −8 to 7.
void put_q4_0(const Values& values, std::uint16_t d, std::byte* out) {
    for (std::size_t first = 0; first < kElements; first += kQ4Elements, out += kQ4Bytes) {
        put_half(d, out);
        for (std::size_t i = 0; i < kQ4Elements / 2; ++i)
            out[2 + i] =
                static_cast<std::byte>((values[first + i] + 8) | (values[first + i + kQ4Elements / 2] + 8) << 4);
    }
}

/// d · (1 + 2 s) · grid · sign, s of 32 elements each.
void repack_iq3_s(Bytes block, const Context&, std::byte* out) {
    const Bytes entries = block.subspan(2, 64), upper = block.subspan(66, 8), signs = block.subspan(74, 32);
    Values values;
    std::array<std::int8_t, 16> scales;
    for (std::size_t i = 0; i < kElements; ++i) {
        const std::size_t entry = i / 4;
        const std::uint32_t magnitudes = kIq3SGrid[byte_at(entries, entry) | (bit_at(upper, entry) ? 256u : 0u)];
        const auto magnitude = static_cast<std::int8_t>(2 * (magnitudes >> i % 4 * 3 & 7u) + 1);
        values[i] = bit_at(signs, i) ? static_cast<std::int8_t>(-magnitude) : magnitude;
    }
    for (std::size_t i = 0; i < scales.size(); ++i)
        scales[i] = static_cast<std::int8_t>(1 + 2 * nibble_at(block.subspan(106, 4), i / 2));
    put_q6_k(values, scales, half_bits(block), out);
}

/// d · (1/2 + s) / 2 · grid · sign; the signs of eight elements are seven bits, and their number is even.
void repack_iq3_xxs(Bytes block, const Context&, std::byte* out) {
    constexpr std::array<std::int8_t, 8> kHalves = {2, 6, 10, 14, 18, 22, 26, 31};  // of the grid's 4, 12, …, 52, 62
    Values values;
    std::array<std::int8_t, 16> scales;
    for (std::size_t i = 0; i < kElements; ++i) {
        std::uint32_t word = 0;  // of 32 elements: four times seven signs, s
        for (std::size_t byte = 0; byte < 4; ++byte) word |= byte_at(block, 66 + i / 32 * 4 + byte) << 8 * byte;
        const std::uint32_t signs = word >> i % 32 / 8 * 7 & 127u;
        const bool is_negative = i % 8 < 7 ? (signs >> i % 8 & 1u) != 0 : std::popcount(signs) % 2 != 0;
        const std::int8_t magnitude = kHalves[kIq3XxsGrid[byte_at(block, 2 + i / 4)] >> i % 4 * 3 & 7u];
        values[i] = is_negative ? static_cast<std::int8_t>(-magnitude) : magnitude;
        scales[i / 16] = static_cast<std::int8_t>(1 + 2 * (word >> 28));
    }
    put_q6_k(values, scales, float_to_half(half_to_float(half_bits(block)) / 2), out);
}

/// d · (trit − 1): five trits in a byte, as the digits after the point of a number in base 3.
void repack_tq1_0(Bytes block, const Context&, std::byte* out) {
    constexpr std::array<std::uint32_t, 5> kPowers = {1, 3, 9, 27, 81};
    const auto trit = [&](std::size_t byte, std::size_t digit) {
        return static_cast<std::int8_t>(((byte_at(block, byte) * kPowers[digit] & 255u) * 3 >> 8) - 1);
    };
    Values values;
    for (std::size_t i = 0; i < 160; ++i) values[i] = trit(i % 32, i / 32);
    for (std::size_t i = 0; i < 80; ++i) values[160 + i] = trit(32 + i % 16, i / 16);
    for (std::size_t i = 0; i < 16; ++i) values[240 + i] = trit(48 + i % 4, i / 4);
    put_q4_0(values, half_bits(block.subspan(52)), out);
}

/// d · (two bits − 1)
void repack_tq2_0(Bytes block, const Context&, std::byte* out) {
    Values values;
    for (std::size_t i = 0; i < kElements; ++i)
        values[i] = static_cast<std::int8_t>(byte_at(block, i / 128 * 32 + i % 32) >> i % 128 / 32 * 2 & 3u) - 1;
    put_q4_0(values, half_bits(block.subspan(64)), out);
}

/// The eighth sign makes the number of signs even.
std::uint32_t eight_signs(std::uint32_t seven) { return seven | (std::popcount(seven) & 1u) << 7; }

GridRow iq2_xxs_row(Bytes block, std::size_t i) {
    const Bytes group = block.subspan(2 + i / 4 * 8, 8);  // four rows, and a word: four times seven signs, s
    const std::uint32_t word = pair_at(group, 2) | pair_at(group, 3) << 16;
    return {byte_at(group, i % 4), eight_signs(word >> i % 4 * 7 & 127u), word >> 28};
}

GridRow iq2_xs_row(Bytes block, std::size_t i) {
    const std::uint32_t both = pair_at(block.subspan(2), i);
    return {both & 511u, eight_signs(both >> 9), nibble_at(block.subspan(66), i / 2)};
}

GridRow iq2_s_row(Bytes block, std::size_t i) {
    const std::uint32_t upper = byte_at(block, 66 + i / 4) >> i % 4 * 2 & 3u;
    return {byte_at(block, 2 + i) | upper << 8, byte_at(block, 34 + i), nibble_at(block.subspan(74), i / 2)};
}

GridRow iq1_s_row(Bytes block, std::size_t i) {
    const std::uint32_t both = pair_at(block.subspan(34), i / 4);
    return {byte_at(block, 2 + i) | (both >> i % 4 * 3 & 7u) << 8, both >> 15, both >> 12 & 7u};
}

GridRow iq1_m_row(Bytes block, std::size_t i) {
    const std::uint32_t upper = nibble_at(block.subspan(32), i);
    return {byte_at(block, i) | (upper & 7u) << 8, upper >> 3, pair_at(block.subspan(48), i / 8) >> i % 8 / 2 * 3 & 7u};
}

/// d · (1/2 + s) / 4 · (8, 25 or 43) · sign
void repack_iq2(Bytes block, const Context& context, std::byte* out) {
    constexpr std::array<float, 3> kMagnitudes = {8, 25, 43};
    const float d = half_to_float(half_bits(block)) / 8;
    for (std::size_t i = 0; i < kElements / 8; ++i) {
        const auto [row, signs, s] = context.row_of(block, i);
        const float scale = d * static_cast<float>(1 + 2 * s);
        for (std::size_t j = 0; j < 8; ++j, out += sizeof(float)) {
            const float value = (bit_of(signs, j) ? -scale : scale) * kMagnitudes[context.grid[row][j]];
            std::memcpy(out, &value, sizeof value);
        }
    }
}

/// d · (1 + 2 s) · (level − 1 ± 1/8). iq1_m has four bits of d above the scales in each of four pairs of bytes.
void repack_iq1(Bytes block, const Context& context, std::byte* out) {
    std::uint32_t d = half_bits(block);
    if (context.row_of == &iq1_m_row)
        for (std::size_t i = 0; i < 4; ++i) d = d >> 4 | (pair_at(block.subspan(48), i) & 0xf000u);
    Values values;
    std::array<std::int8_t, 16> scales;
    for (std::size_t i = 0; i < kElements / 8; ++i) {
        const auto [row, is_less, s] = context.row_of(block, i);
        scales[i / 2] = static_cast<std::int8_t>(1 + 2 * s);
        for (std::size_t j = 0; j < 8; ++j)
            values[8 * i + j] = static_cast<std::int8_t>(8 * context.grid[row][j] - (is_less ? 9 : 7));
    }
    put_q6_k(values, scales, float_to_half(half_to_float(static_cast<std::uint16_t>(d)) / 8), out);
}

/// d of 16 elements · the number of a nibble, a float of four bits (E2M1). d is one of eight (E4M3) without a sign, whose exponent is less
/// by 8 than float16's; 127 is 0.
void repack_nvfp4(Bytes block, const Context& context, std::byte* out) {
    for (std::size_t i = 0; i < 64; ++i) {
        const std::uint32_t d = byte_at(block, i / 16);
        const std::uint32_t nibble = byte_at(block, 4 + i / 16 * 8 + i % 8) >> i % 16 / 8 * 4;
        const float scale = d == 127 ? 0 : 128 * half_to_float(static_cast<std::uint16_t>((d & 127u) << 7));
        const auto number = static_cast<float>(kMxfp4Values[nibble & 15u] - kMxfp4Values[0]);
        put_half(float_to_half(scale * number * context.scale), out + 2 * i);
    }
}

struct Repacking {
    std::uint32_t type;
    std::size_t block_bytes, repacked_bytes;
    DType dtype;
    void (*repack)(Bytes, const Context&, std::byte*);
    const GridBits* grid = nullptr;
    GridRow (*row_of)(Bytes, std::size_t) = nullptr;
};
constexpr std::size_t kFloatBytes = kElements * sizeof(float);
constexpr std::array kRepackings = {
    Repacking{kNvfp4, 36, 128, DType::f16, &repack_nvfp4},
    Repacking{kIq2Xxs, 66, kFloatBytes, DType::f32, &repack_iq2, &kIq2XxsGrid, &iq2_xxs_row},
    Repacking{kIq2Xs, 74, kFloatBytes, DType::f32, &repack_iq2, &kIq2XsGrid, &iq2_xs_row},
    Repacking{kIq2S, 82, kFloatBytes, DType::f32, &repack_iq2, &kIq2SGrid, &iq2_s_row},
    Repacking{kIq1S, 50, kQ6Bytes, DType::q6_k, &repack_iq1, &kIq1Grid, &iq1_s_row},
    Repacking{kIq1M, 56, kQ6Bytes, DType::q6_k, &repack_iq1, &kIq1Grid, &iq1_m_row},
    Repacking{kIq3Xxs, 98, kQ6Bytes, DType::q6_k, &repack_iq3_xxs},
    Repacking{kIq3S, 110, kQ6Bytes, DType::q6_k, &repack_iq3_s},
    Repacking{kTq1, 54, 8 * kQ4Bytes, DType::q4_0, &repack_tq1_0},
    Repacking{kTq2, 66, 8 * kQ4Bytes, DType::q4_0, &repack_tq2_0}};

const Repacking* repacking_of(std::uint32_t type) noexcept {
    for (const Repacking& repacking : kRepackings)
        if (repacking.type == type) return &repacking;
    return nullptr;
}

void read_grid(const GridBits& bits, Context& context) {
    auto row = context.grid.begin();
    for (std::uint32_t number = 0; number < kGridNumbers; ++number) {
        if ((bits[number / 64] >> number % 64 & 1u) == 0) continue;
        std::uint32_t rest = number;
        for (std::uint8_t& level : *row) {
            level = static_cast<std::uint8_t>(rest % 3);
            rest /= 3;
        }
        ++row;
    }
}

}  // namespace

std::optional<DType> repacked_dtype(std::uint32_t ggml_type) noexcept {
    const Repacking* const found = repacking_of(ggml_type);
    return found ? std::optional(found->dtype) : std::nullopt;
}

void repack(std::uint32_t ggml_type, Bytes blocks, float scale, std::span<std::byte> repacked) {
    const Repacking& r = *repacking_of(ggml_type);
    Context context{.row_of = r.row_of, .scale = scale, .grid = {}};
    if (r.grid) read_grid(*r.grid, context);
    const std::size_t count = blocks.size() / r.block_bytes;
    assert(blocks.size() == count * r.block_bytes && repacked.size() == count * r.repacked_bytes);
    for (std::size_t i = 0; i < count; ++i)
        r.repack(blocks.subspan(i * r.block_bytes, r.block_bytes), context, repacked.data() + i * r.repacked_bytes);
}

}  // namespace vkformer::formats
