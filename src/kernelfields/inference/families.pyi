from kernelfields.inference.chain.list_family import ListFamily as ListFamily, limit_chains as limit_chains
from kernelfields.inference.chain.lists import should_use_lists as should_use_lists
from kernelfields.inference.chain.scored_steps import StepTable as StepTable
from kernelfields.inference.graph_plans import junction_of_chains as junction_of_chains
from kernelfields.inference.ngrams.family import NgramFamily as NgramFamily
from kernelfields.inference.single import SingleFamily as SingleFamily
