/* Source text, libraries and functions. */
#ifndef SOFTMETAL_MTLLIBRARY_H
#define SOFTMETAL_MTLLIBRARY_H

#import <Metal/MTLTypes.h>

typedef NS_ENUM(NSUInteger, MTLLanguageVersion) {
    MTLLanguageVersion1_0 = 1 << 16,
    MTLLanguageVersion1_1 = (1 << 16) + 1,
    MTLLanguageVersion1_2 = (1 << 16) + 2,
    MTLLanguageVersion2_0 = 2 << 16,
    MTLLanguageVersion2_1 = (2 << 16) + 1,
    MTLLanguageVersion2_2 = (2 << 16) + 2,
    MTLLanguageVersion2_3 = (2 << 16) + 3,
    MTLLanguageVersion2_4 = (2 << 16) + 4,
    MTLLanguageVersion3_0 = 3 << 16,       /* macOS 13 */
    MTLLanguageVersion3_1 = (3 << 16) + 1, /* macOS 14 */
    MTLLanguageVersion3_2 = (3 << 16) + 2, /* macOS 15 */
    MTLLanguageVersion4_0 = 4 << 16,       /* macOS 26 */
};

typedef NS_ENUM(NSInteger, MTLLibraryType) {
    MTLLibraryTypeExecutable = 0,
    MTLLibraryTypeDynamic = 1,
};

typedef NS_ENUM(NSInteger, MTLLibraryOptimizationLevel) {
    MTLLibraryOptimizationLevelDefault = 0,
    MTLLibraryOptimizationLevelSize = 1,
};

typedef NS_ENUM(NSInteger, MTLMathMode) { /* macOS 15 */
    MTLMathModeSafe = 0,
    MTLMathModeRelaxed = 1,
    MTLMathModeFast = 2,
};

typedef NS_ENUM(NSInteger, MTLMathFloatingPointFunctions) { /* macOS 15 */
    MTLMathFloatingPointFunctionsFast = 0,
    MTLMathFloatingPointFunctionsPrecise = 1,
};

typedef NS_ENUM(NSUInteger, MTLFunctionType) {
    MTLFunctionTypeVertex = 1,
    MTLFunctionTypeFragment = 2,
    MTLFunctionTypeKernel = 3,
    MTLFunctionTypeVisible = 5,
    MTLFunctionTypeIntersection = 6,
    MTLFunctionTypeMesh = 7,
    MTLFunctionTypeObject = 8,
};

typedef NS_ENUM(NSUInteger, MTLDataType) {
    MTLDataTypeNone = 0,
    MTLDataTypeStruct = 1,
    MTLDataTypeArray = 2,
    MTLDataTypeFloat = 3,
    MTLDataTypeFloat2 = 4,
    MTLDataTypeFloat3 = 5,
    MTLDataTypeFloat4 = 6,
    MTLDataTypeHalf = 16,
    MTLDataTypeInt = 29,
    MTLDataTypeUInt = 33,
    MTLDataTypeShort = 37,
    MTLDataTypeUShort = 41,
    MTLDataTypeChar = 45,
    MTLDataTypeUChar = 49,
    MTLDataTypeBool = 53,
    MTLDataTypeLong = 81,
    MTLDataTypeULong = 85,
};

MTL_EXTERN NSString *const MTLLibraryErrorDomain;

typedef NS_ENUM(NSUInteger, MTLLibraryError) {
    MTLLibraryErrorUnsupported = 1,
    MTLLibraryErrorInternal = 2,
    MTLLibraryErrorCompileFailure = 3,
    MTLLibraryErrorCompileWarning = 4,
    MTLLibraryErrorFunctionNotFound = 5,
    MTLLibraryErrorFileNotFound = 6,
};

@interface MTLCompileOptions : NSObject <NSCopying> {
    @private
    NSDictionary *_preprocessorMacros;
    NSString *_installName;
    NSArray *_libraries;
    BOOL _preserveInvariance;
    MTLMathMode _mathMode;
    MTLMathFloatingPointFunctions _mathFloatingPointFunctions;
    MTLLanguageVersion _languageVersion;
    MTLLibraryType _libraryType;
    MTLLibraryOptimizationLevel _optimizationLevel;
}
@property(copy) NSDictionary *preprocessorMacros;
@property BOOL fastMathEnabled; /* default YES; replaced by mathMode in macOS 15 */
@property MTLMathMode mathMode; /* macOS 15, default Fast */
@property MTLMathFloatingPointFunctions mathFloatingPointFunctions; /* macOS 15 */
@property MTLLanguageVersion languageVersion;
@property MTLLibraryType libraryType;
@property(copy) NSString *installName;
@property(copy) NSArray *libraries;
@property BOOL preserveInvariance;
@property MTLLibraryOptimizationLevel optimizationLevel; /* macOS 13 */
@end

@interface MTLFunctionConstantValues : NSObject <NSCopying> {
    @private
    NSMutableDictionary *_values; /* index or name -> literal */
}
- (void)setConstantValue:(const void *)value type:(MTLDataType)type atIndex:(NSUInteger)index;
- (void)setConstantValues:(const void *)values type:(MTLDataType)type withRange:(NSRange)range;
- (void)setConstantValue:(const void *)value type:(MTLDataType)type withName:(NSString *)name;
- (void)reset;
@end

@protocol MTLFunction <NSObject>
@property(copy, atomic) NSString *label;
@property(readonly) id<MTLDevice> device;
@property(readonly) MTLFunctionType functionType;
@property(readonly) NSString *name;
@property(readonly) NSDictionary *functionConstantsDictionary;
@end

@protocol MTLLibrary <NSObject>
@property(copy, atomic) NSString *label;
@property(readonly) id<MTLDevice> device;
@property(readonly) NSArray<NSString *> *functionNames;
@property(readonly) MTLLibraryType type;
@property(readonly) NSString *installName;
- (id<MTLFunction>)newFunctionWithName:(NSString *)functionName;
- (id<MTLFunction>)newFunctionWithName:(NSString *)name
                        constantValues:(MTLFunctionConstantValues *)constantValues
                                 error:(NSError **)error;
@end

#endif
