#include "engine/ops/max_inputs.h"

#include "base/error.h"

namespace sluice::engine {
namespace {

// Operators that are not listed take any number.
struct MaxInputs {
  std::size_t inputs;
  std::string_view domain, ops;  // names surrounded by spaces
};
constexpr MaxInputs kMaxInputs[] = {
    {0, "", " Constant RandomNormal RandomUniform SequenceEmpty "},
    {1, "",
     " Abs Acos Acosh ArgMax ArgMin Asin Asinh Atan Atanh AveragePool Bernoulli BitCast BitwiseNot "
     "BlackmanWindow Cast Ceil Celu ConcatFromSequence ConstantOfShape Cos Cosh DepthToSpace Det "
     "DynamicQuantizeLinear Elu Erf Exp EyeLike Flatten Floor Gelu GlobalAveragePool GlobalLpPool "
     "GlobalMaxPool HammingWindow HannWindow HardSigmoid HardSwish Hardmax Identity If "
     "ImageDecoder IsInf IsNaN LRN LeakyRelu Log LogSoftmax LpNormalization LpPool MaxPool "
     "MeanVarianceNormalization Mish Multinomial Neg NonZero Not Optional OptionalGetElement "
     "OptionalHasElement RandomNormalLike RandomUniformLike Reciprocal RegexFullMatch Relu Round "
     "Selu SequenceLength Shape Shrink Sigmoid Sign Sin Sinh Size Softmax Softplus Softsign "
     "SpaceToDepth Sqrt StringNormalizer StringSplit Swish Tan Tanh TfIdfVectorizer "
     "ThresholdedRelu Transpose Unique "},
    {2, "",
     " Add AffineGrid And BitShift BitwiseAnd BitwiseOr BitwiseXor CastLike CenterCropPad Compress "
     "CumProd CumSum Div Equal Expand Gather GatherElements GatherND Greater GreaterOrEqual "
     "GridSample Less LessOrEqual MatMul MaxRoiPool Mod Mul Or PRelu Pow RMSNormalization "
     "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd "
     "ReduceSum ReduceSumSquare Reshape ReverseSequence SequenceAt SequenceErase Split "
     "SplitToSequence Squeeze StringConcat Sub SwiGLU TopK Trilu Unsqueeze Upsample Xor "},
    {3, "",
     " Clip Col2Im Conv ConvTranspose DFT DequantizeLinear Dropout Gemm GroupNormalization "
     "InstanceNormalization LayerNormalization MaxUnpool NegativeLogLikelihoodLoss OneHot "
     "QuantizeLinear Range RoiAlign Scatter ScatterElements ScatterND SequenceInsert "
     "SoftmaxCrossEntropyLoss TensorScatter Tile Where "},
    {4, "", " CausalConvWithState ConvInteger MatMulInteger Pad Resize RotaryEmbedding STFT "},
    {5, "", " BatchNormalization DeformConv MelWeightMatrix NonMaxSuppression Slice "},
    {6, "", " GRU LinearAttention RNN "},
    {7, "", " Attention "},
    {8, "", " LSTM QLinearMatMul "},
    {9, "", " QLinearConv "},
    {1, "ai.onnx.ml",
     " Binarizer CategoryMapper Imputer LabelEncoder LinearClassifier LinearRegressor Normalizer "
     "OneHotEncoder SVMClassifier SVMRegressor Scaler TreeEnsemble TreeEnsembleClassifier "
     "TreeEnsembleRegressor "},
    {2, "ai.onnx.ml", " ArrayFeatureExtractor "},
};

}  // namespace

void check_inputs(const Node& node) {
  std::size_t given = node.inputs.size();
  while (given > 0 && node.inputs[given - 1] == kNoValue) --given;
  const std::string name = " " + node.op + " ";
  for (const MaxInputs& max : kMaxInputs)
    if (given > max.inputs && node.domain == max.domain && max.ops.find(name) != max.ops.npos)
      throw Error(Code::invalid_argument, describe(node) + " has " + std::to_string(given) +
                                              " inputs, and the operator takes " +
                                              std::to_string(max.inputs) + " at most");
}

}  // namespace sluice::engine
