/* Compute part of the Metal API, written for the Linux stand-in from the public
 * documentation: names, selectors, types and enum values are Apple's, the text
 * and everything behind it is ours.  What a compute bridge does not use
 * (rendering, textures, ray tracing) is left out on purpose, so that using it
 * is a compile error here. */
#ifndef SOFTMETAL_METAL_H
#define SOFTMETAL_METAL_H

#import <Metal/MTLDefines.h>
#import <Metal/MTLTypes.h>
#import <Metal/MTLResource.h>
#import <Metal/MTLLibrary.h>
#import <Metal/MTLComputePipeline.h>
#import <Metal/MTLEvent.h>
#import <Metal/MTLDevice.h>
#import <Metal/MTLCommandQueue.h>
#import <Metal/MTLCommandBuffer.h>
#import <Metal/MTLCommandEncoder.h>

#endif
