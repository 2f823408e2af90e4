from .sections.jump_plan import takes_langevin as takes_langevin
