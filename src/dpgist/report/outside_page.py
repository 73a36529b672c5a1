from typing import Any
from dpgist.report.content import Content
def outside_context(content: Content) -> dict[str, Any] | None:
    return None
