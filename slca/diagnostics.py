"""How much of one segment's reward ends up on the other's tokens, in advantages and in gradients (ours).

Measured on the batch of a step before its update, so that all importance ratios are 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from slca.credit import Credit, GroupBatch
from slca.segments import SUMMARY, TOOL

_TINY = 1e-12


def contamination(batch: GroupBatch, credit: Credit) -> dict[str, float]:
    """Advantages of one segment that the other's reward moved.

    * ``contamination/tool``: share of the variance of the tool tokens' advantages, within groups, that the summary
      reward explains beyond the tool reward. The advantages are regressed on the tool reward and what is left on the
      part of the summary reward that the tool reward does not predict. 0 for SLCA by construction.
    * ``contamination/summary``: the same with the roles changed.
    * ``sign_disagreement``: share of the tokens with an advantage whose sign is not that of their own segment's reward
      minus its mean over the members of the group that have the segment.
    """
    out: dict[str, float] = {}
    tool, summary = batch.reward("tool"), batch.reward("summary")
    wrong = counted = 0
    for name, which, own, other in (("tool", TOOL, tool, summary), ("summary", SUMMARY, summary, tool)):
        tokens = (credit.segments == which) & credit.loss_mask
        advantage = (credit.advantages.double() * tokens).sum(1) / tokens.sum(1).clamp(min=1)
        shares = [0.0, 0.0]
        for rows in _groups(batch.group, tokens.any(1)):
            weight = tokens[rows].sum(1).double()
            explained, whole = _explained(advantage[rows], own[rows], other[rows], weight)
            shares[0] += explained
            shares[1] += whole
            centred = own[rows] - own[rows].mean()
            signs = torch.where(centred.abs() > 1e-9, centred.sign(), torch.zeros_like(centred))
            moved = advantage[rows].abs() > 1e-9
            wrong += int((weight * (moved & (advantage[rows].sign() != signs))).sum())
            counted += int((weight * moved).sum())
        out[f"contamination/{name}"] = shares[0] / shares[1] if shares[1] > _TINY else 0.0
    out["sign_disagreement"] = wrong / counted if counted else 0.0
    return out


def _groups(group: Tensor, present: Tensor) -> Iterator[Tensor]:
    for g in group.unique():
        rows = ((group == g) & present).nonzero().flatten()
        if len(rows) >= 3:  # two points are explained by anything
            yield rows


def _explained(a: Tensor, own: Tensor, other: Tensor, weight: Tensor) -> tuple[float, float]:
    """(sum of squares of ``a`` that ``other`` explains beyond ``own``, sum of squares of ``a``), all centred, weighted."""

    def centred(x: Tensor) -> Tensor:
        return x - (weight * x).sum() / weight.sum()

    def without(x: Tensor, by: Tensor) -> Tensor:
        square = (weight * by * by).sum()
        return x - (weight * x * by).sum() / square * by if float(square) > _TINY else x

    a, own, other = centred(a), centred(own), centred(other)
    left, new = without(a, own), without(other, own)
    square = float((weight * new * new).sum())
    explained = float((weight * left * new).sum()) ** 2 / square if square > _TINY else 0.0
    return explained, float((weight * a * a).sum())


def segment_gradients(
    parameters: list[Tensor],
    groups: list[list[int]],
    logprobs_of: Callable[[list[int]], Tensor],
    credit: Credit,
) -> dict[str, float]:
    """Gradients of the two segments' parts of the loss, and how they vary from group to group.

    The loss is ``-sum_t A_t logprob_t / D`` with D the number of trained tokens.

    Args:
        parameters: what the gradients are taken with respect to.
        groups: rows of the batch, group by group.
        logprobs_of: rows -> (len(rows), T) log-probabilities with a graph, T the longest completion among them or more.

    Returns:
        ``gradient/norm_tool``, ``gradient/norm_summary``, ``gradient/cosine`` (0 where one is zero), and
        ``gradient/noise_tool``, ``gradient/noise_summary``, ``gradient/noise``: the expected squared distance of a
        group's gradient from the mean one over the squared norm of the mean (how many groups it takes until the signal
        equals the noise).
    """
    total = float(credit.loss_mask.sum().clamp(min=1))
    sums: dict[str, Tensor] = {}
    squares: dict[str, float] = {}
    for rows in groups:
        logprobs = logprobs_of(rows)
        width = logprobs.shape[1]
        parts = []
        for name, which in (("tool", TOOL), ("summary", SUMMARY)):
            tokens = ((credit.segments[rows] == which) & credit.loss_mask[rows])[:, :width]
            advantages = (credit.advantages[rows][:, :width] * tokens).to(logprobs)
            parts.append((name, -(advantages * logprobs).sum() / total))
        flat: dict[str, Tensor] = {}
        for last, (name, loss) in enumerate(parts):
            found = torch.autograd.grad(loss, parameters, retain_graph=not last, allow_unused=True)
            flat[name] = torch.cat([
                (torch.zeros_like(p) if g is None else g).flatten().float() for g, p in zip(found, parameters, strict=True)
            ])  # fmt: skip
        flat["both"] = flat["tool"] + flat["summary"]
        for name, gradient in flat.items():
            sums[name] = sums[name] + gradient if name in sums else gradient
            squares[name] = squares.get(name, 0.0) + float(gradient.double().square().sum())
    norms = {name: float(s.double().norm()) for name, s in sums.items()}
    product = norms["tool"] * norms["summary"]
    cosine = float(sums["tool"].double() @ sums["summary"].double()) / product if product > _TINY else 0.0
    out = {"gradient/norm_tool": norms["tool"], "gradient/norm_summary": norms["summary"], "gradient/cosine": cosine}
    n = len(groups)
    for name, norm in norms.items():
        key = "gradient/noise" if name == "both" else f"gradient/noise_{name}"
        mean = norm**2 / n**2
        spread = (squares[name] - norm**2 / n) / max(1, n - 1)
        out[key] = spread / mean if mean > _TINY**2 and n > 1 else 0.0
    return out
