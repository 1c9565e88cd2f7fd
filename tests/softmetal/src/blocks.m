/* A blocks runtime.  The ones at hand do not do: GNUstep's _Block_copy returns
 * clang's stack blocks uncopied (handlers then run on a dead stack), and
 * libBlocksRuntime neither retains what blocks capture nor makes them objects. */
#import <Foundation/Foundation.h>
#include <objc/runtime.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum {
    kRefMask = 0xfffe,
    kNeedsFree = 1 << 24,
    kHasCopyDispose = 1 << 25,
    kIsGlobal = 1 << 28,
    kFieldObject = 3,
    kFieldBlock = 7,
    kFieldByref = 8,
    kByrefCaller = 128,
};

struct block_descriptor {
    unsigned long reserved, size;
    void (*copy)(void *, const void *);
    void (*dispose)(const void *);
};
struct block {
    void *isa;
    int flags, reserved;
    void (*invoke)(void *, ...);
    struct block_descriptor *descriptor;
};
struct byref {
    void *isa;
    struct byref *forwarding;
    int flags, size;
    void (*keep)(void *, void *);
    void (*destroy)(void *);
};

/* clang points the isa of a block at these; a real class is copied into them
 * when the runtime is ready. */
EXPORT void *_NSConcreteStackBlock[64];
EXPORT void *_NSConcreteMallocBlock[64];
EXPORT void *_NSConcreteGlobalBlock[64];

EXPORT void *_Block_copy(const void *argument)
{
    struct block *b = (struct block *)argument;
    if (!b)
        return NULL;
    if (b->flags & kIsGlobal)
        return b;
    if (b->flags & kNeedsFree) {
        __atomic_add_fetch(&b->flags, 2, __ATOMIC_RELAXED);
        return b;
    }
    struct block *copy = malloc(b->descriptor->size);
    memcpy(copy, b, b->descriptor->size);
    copy->flags = (copy->flags & ~kRefMask) | kNeedsFree | 2;
    copy->isa = _NSConcreteMallocBlock;
    if (copy->flags & kHasCopyDispose)
        copy->descriptor->copy(copy, b);
    return copy;
}

EXPORT void _Block_release(const void *argument)
{
    struct block *b = (struct block *)argument;
    if (!b || b->flags & kIsGlobal || !(b->flags & kNeedsFree))
        return;
    if (__atomic_sub_fetch(&b->flags, 2, __ATOMIC_ACQ_REL) & kRefMask)
        return;
    if (b->flags & kHasCopyDispose)
        b->descriptor->dispose(b);
    free(b);
}

EXPORT void _Block_object_assign(void *to, const void *object, const int flags)
{
    void **slot = (void **)to;
    if (flags & kByrefCaller) {
        *slot = (void *)object;
    } else if ((flags & 15) == kFieldBlock) {
        *slot = _Block_copy(object);
    } else if ((flags & 15) == kFieldByref) {
        struct byref *b = ((struct byref *)object)->forwarding;
        if (!(b->flags & kNeedsFree)) {
            struct byref *copy = malloc((size_t)b->size);
            memcpy(copy, b, (size_t)b->size);
            copy->flags = (b->flags & ~kRefMask) | kNeedsFree | 4; /* the stack and this block */
            copy->forwarding = copy;
            b->forwarding = copy;
            if (b->flags & kHasCopyDispose)
                copy->keep(copy, b);
            b = copy;
        } else {
            __atomic_add_fetch(&b->flags, 2, __ATOMIC_RELAXED);
        }
        *slot = b;
    } else {
        *slot = [(id)object retain];
    }
}

EXPORT void _Block_object_dispose(const void *object, const int flags)
{
    if (flags & kByrefCaller)
        return;
    if ((flags & 15) == kFieldBlock) {
        _Block_release(object);
    } else if ((flags & 15) == kFieldByref) {
        struct byref *b = ((struct byref *)object)->forwarding;
        if (!(b->flags & kNeedsFree))
            return;
        if (__atomic_sub_fetch(&b->flags, 2, __ATOMIC_ACQ_REL) & kRefMask)
            return;
        if (b->flags & kHasCopyDispose)
            b->destroy(b);
        free(b);
    } else {
        [(id)object release];
    }
}

/* struct objc_class of the GCC runtime: thirteen words. */
static const size_t kClassSize = 13 * sizeof(void *);

@interface SMBlock : NSObject
@end

@implementation SMBlock
/* +load: the class is complete now, and no block has been messaged yet. */
+ (void)load
{
    Class c = [SMBlock class];
    memcpy(_NSConcreteStackBlock, (void *)c, kClassSize);
    memcpy(_NSConcreteMallocBlock, (void *)c, kClassSize);
    memcpy(_NSConcreteGlobalBlock, (void *)c, kClassSize);
}
- (id)copy { return (id)_Block_copy(self); }
- (id)copyWithZone:(NSZone *)zone
{
    (void)zone;
    return (id)_Block_copy(self);
}
- (id)retain { return (id)_Block_copy(self); }
- (oneway void)release { _Block_release(self); }
- (id)autorelease
{
    [NSAutoreleasePool addObject:self];
    return self;
}
- (NSUInteger)retainCount { return 1; }
- (void)dealloc
{
    if (0)
        [super dealloc]; /* the last _Block_release frees */
}
@end
