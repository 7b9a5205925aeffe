"""Evaluations and comparisons as plain values, for JSON. The keys are an interface."""

from dataclasses import asdict
from typing import Any

from qkv.evaluation.compare import Comparison, verdict
from qkv.evaluation.evaluate import Evaluation
from qkv.evaluation.resampling import RESAMPLES, SEED, SHUFFLES, Interval


def evaluation_dict(found: Evaluation) -> dict[str, Any]:
    """What `qkv evaluate --json` prints."""
    return {
        "outputs": len(found.outputs),
        "scores": {
            score.metric.name: {
                "score": score.value,
                **_interval(score.interval),
                "higher_is_better": score.metric.higher_is_better,
                "detail": score.detail,
                "signature": score.signature,
            }
            for score in found.scores
        },
        "by_length": [
            {
                "low": part.group.low,
                "high": part.group.high,
                "outputs": len(part.group.members),
                "scores": {score.metric.name: value for score, value in zip(found.scores, part.values, strict=True)},
                "intervals": {
                    score.metric.name: _interval(interval)
                    for score, interval in zip(found.scores, part.intervals, strict=True)
                },
            }
            for part in found.by_length
        ],
        "length_in": found.unit,
        "by_frequency": [
            {**asdict(group), "precision": group.precision, "recall": group.recall, "f1": group.f1}
            for group in found.by_frequency
        ],
        "resampling": {"resamples": RESAMPLES, "seed": SEED},
        "remarks": found.remarks,
        "decoding": None if found.decoding is None else found.decoding.as_dict(),
    }


def comparison_dict(found: Comparison) -> dict[str, Any]:
    """What `qkv compare --json` prints."""
    return {
        "outputs": len(found.test),
        "baseline": next(iter(found.systems)),
        "metrics": {
            metric.name: {
                "signature": signature,
                "higher_is_better": metric.higher_is_better,
                "systems": {name: _system(found, name, place) for name in found.systems},
            }
            for place, (metric, signature) in enumerate(zip(found.metrics, found.signatures.values(), strict=True))
        },
        "by_length": [
            {
                "low": group.low,
                "high": group.high,
                "outputs": len(group.members),
                "scores": {
                    metric.name: {name: own.values[place] for name, own in scores.items()}
                    for place, metric in enumerate(found.metrics)
                },
                "intervals": {
                    metric.name: {name: _interval(own.intervals[place]) for name, own in scores.items()}
                    for place, metric in enumerate(found.metrics)
                },
            }
            for group, scores in found.by_length
        ],
        "length_in": found.unit,
        "resampling": {"resamples": RESAMPLES, "shuffles": SHUFFLES, "seed": SEED},
        "remarks": found.remarks,
        "decoding": {name: own.as_dict() for name, own in found.decodings.items()},
    }


def _system(found: Comparison, name: str, place: int) -> dict[str, Any]:
    score = found.scores[name][place]
    result = {"score": score.value, **_interval(score.interval), "verdict": verdict(found.metrics[place], score)}
    if score.test is not None:
        result |= {
            "difference": score.test.difference,
            "difference_low": score.test.interval.low,
            "difference_high": score.test.interval.high,
            "p_bootstrap": score.test.bootstrap,
            "p_randomization": score.test.randomization,
        }
    return result


def _interval(interval: Interval) -> dict[str, float]:
    return {"low": interval.low, "high": interval.high}
