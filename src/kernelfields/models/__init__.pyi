from kernelfields.models import documents as documents, growing as growing, hints as hints, working_set as working_set
