"""The outputs that validation compares with the dev data: a kind for each thing that a model is asked for."""

from qkv.training.outputs import labels, text_labels, translations
from qkv.training.outputs.base import Answer, DevData, Outputs, OutputsKind, outputs

__all__ = ["Answer", "DevData", "Outputs", "OutputsKind", "labels", "outputs", "text_labels", "translations"]
