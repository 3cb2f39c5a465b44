from kernelfields.inference.chain.list_family import ListFamily as ListFamily, limit_chains as limit_chains
from kernelfields.inference.chain.lists import should_use_lists as should_use_lists
from kernelfields.inference.chain.scored_steps import StepTable as StepTable
from kernelfields.inference.far_labels import build_far_family as build_far_family, table_reach as table_reach
from kernelfields.inference.single import SingleFamily as SingleFamily
