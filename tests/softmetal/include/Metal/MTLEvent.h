/* Events and fences. */
#ifndef SOFTMETAL_MTLEVENT_H
#define SOFTMETAL_MTLEVENT_H

#import <Metal/MTLTypes.h>

@protocol MTLEvent <NSObject>
@property(readonly) id<MTLDevice> device;
@property(copy, atomic) NSString *label;
@end

/* On a Mac the listener carries a dispatch queue; here notifications come from
 * a thread of the stand-in. */
@interface MTLSharedEventListener : NSObject
- (instancetype)init;
@end

typedef void (^MTLSharedEventNotificationBlock)(id<MTLSharedEvent> event, uint64_t value);

@protocol MTLSharedEvent <MTLEvent>
@property(readwrite) uint64_t signaledValue;
- (void)notifyListener:(MTLSharedEventListener *)listener
               atValue:(uint64_t)value
                 block:(MTLSharedEventNotificationBlock)block;
- (BOOL)waitUntilSignaledValue:(uint64_t)value timeoutMS:(uint64_t)milliseconds; /* macOS 12 */
@end

@protocol MTLFence <NSObject>
@property(readonly) id<MTLDevice> device;
@property(copy, atomic) NSString *label;
@end

#endif
