"""Makes tests/rules/real_tools.py importable here too."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "rules"))
