"""SLCA-GRPO: segment-locked credit assignment for tool-calling policies.

``slca.segments`` and ``slca.credit`` need torch alone; everything else is imported where it is used.
"""

__version__ = "0.1.0"
