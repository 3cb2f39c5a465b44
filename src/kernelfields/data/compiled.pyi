from kernelfields.data.names_compiled import (
    add_missing as add_missing,
    enter_all as enter_all,
    find as find,
    scan as scan,
)
