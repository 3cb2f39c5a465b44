from kernelfields.page.server import serve as serve
from kernelfields.page.session import LabellingSession as LabellingSession
