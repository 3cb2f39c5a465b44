from kernelfields.cli import doubts as doubts
from kernelfields.cli.models import (
    Field as Field,
    TextPlaces as TextPlaces,
    TrainedModel as TrainedModel,
    build_estimator as build_estimator,
    check_labels as check_labels,
    get_template as get_template,
    has_transitions as has_transitions,
    is_dense as is_dense,
    load_model as load_model,
    model_content as model_content,
    read_training_file as read_training_file,
    token_arguments as token_arguments,
)
from kernelfields.cli.settings import file_digest as file_digest
