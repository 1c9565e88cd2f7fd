/* Plain value types. */
#ifndef SOFTMETAL_MTLTYPES_H
#define SOFTMETAL_MTLTYPES_H

#import <Metal/MTLDefines.h>

typedef struct {
    NSUInteger width, height, depth;
} MTLSize;

typedef struct {
    NSUInteger x, y, z;
} MTLOrigin;

typedef struct {
    MTLOrigin origin;
    MTLSize size;
} MTLRegion;

typedef struct {
    NSUInteger size, align;
} MTLSizeAndAlign;

/* What an indirect dispatch reads from its buffer. */
typedef struct {
    uint32_t threadgroupsPerGrid[3];
} MTLDispatchThreadgroupsIndirectArguments;

MTL_INLINE MTLSize MTLSizeMake(NSUInteger width, NSUInteger height, NSUInteger depth)
{
    MTLSize s = {width, height, depth};
    return s;
}

MTL_INLINE MTLOrigin MTLOriginMake(NSUInteger x, NSUInteger y, NSUInteger z)
{
    MTLOrigin o = {x, y, z};
    return o;
}

#endif
