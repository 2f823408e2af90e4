"""How far means are from those of infinitely short steps, and what else is wrong with a number."""
