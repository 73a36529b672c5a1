"""How good synthetic rows are: scores against real rows, all of them outside the guarantee."""
