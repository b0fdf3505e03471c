// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "core/dtype.hpp"
#include "models/open_model.hpp"
#include "tuning/workload.hpp"

namespace vkformer::api {

/// What the choice between two backends is measured with where the model, of any kind, is run with the options' defaults. Of one that gives vectors and scores, the scores; of CLIP and SigLIP, images. Errors: those of loading.
Result<std::vector<tuning::Workload>> default_workloads(const models::OpenedModel& model, DType dtype,
                                                        models::WeightFormat weights = models::WeightFormat::as_filed);

}  // namespace vkformer::api
