from kernelfields.inference.chain import (
    decoding as decoding,
    lists_compiled as lists_compiled,
    moments_compiled as moments_compiled,
    pairs_compiled as pairs_compiled,
    plain as plain,
    scaled_compiled as scaled_compiled,
    streaming_compiled as streaming_compiled,
)
