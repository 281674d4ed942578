# SPDX-License-Identifier: Apache-2.0
"""Prints what TensorBoard's own reader finds in a folder, as JSON: tag -> [[step, value], ...], and
under "hparams" and "charts" what its plugins HParams and Custom Scalars make of it.

PYTHON read_tensorboard.py FOLDER
"""
import json
import sys

from google.protobuf import json_format
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.hparams import metadata

events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
events.Reload()


def hparams():
    content = events.PluginTagToContent("hparams")
    experiment = metadata.parse_experiment_plugin_data(content[metadata.EXPERIMENT_TAG])
    start = metadata.parse_session_start_info_plugin_data(content[metadata.SESSION_START_INFO_TAG])
    end = content.get(metadata.SESSION_END_INFO_TAG)
    return {"names": [info.name for info in experiment.hparam_infos],
            "metrics": [info.name.tag for info in experiment.metric_infos],
            "values": {name: json_format.MessageToDict(value)
                       for name, value in start.hparams.items()},
            "status": metadata.parse_session_end_info_plugin_data(end).status if end else None}


def charts():
    tensor = events.Tensors("custom_scalars__config__")[0].tensor_proto
    layout = layout_pb2.Layout.FromString(tensor.string_val[0])
    return {chart.title: list(chart.multiline.tag)
            for category in layout.category for chart in category.chart}


shown = {tag: [[event.step, event.value] for event in events.Scalars(tag)]
         for tag in events.Tags()["scalars"]}
print(json.dumps({**shown, "hparams": hparams(), "charts": charts()}))
