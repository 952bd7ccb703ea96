/**
 * An exported detector on pictures, from C++17.
 *
 *     apt install g++ pkg-config libonnxruntime-dev
 *     g++ -std=c++17 -O2 examples/onnx_detector.cpp $(pkg-config --cflags --libs libonnxruntime) -o onnx_detector
 *     ./onnx_detector detector.onnx photo.ppm .5
 *
 * The picture is a binary PPM (`convert photo.jpg photo.ppm`) so that nothing else is needed; any decoder that gives
 * RGB bytes row by row will do. The last number is the least probability of a box, 0 unless given.
 */

#include <onnxruntime_cxx_api.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

struct Picture {
  int64_t height = 0, width = 0;
  std::vector<uint8_t> pixels;
};

/** Return the next number of a PPM's header, past spaces and comments. */
int64_t header_number(std::istream& file) {
  std::string comment;
  while ((file >> std::ws).peek() == '#') std::getline(file, comment);
  int64_t number = 0;
  file >> number;
  return number;
}

/** Return a binary PPM with 8 bits a channel. */
Picture read_picture(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::array<char, 2> kind{};
  file.read(kind.data(), kind.size());
  Picture picture;
  picture.width = header_number(file);
  picture.height = header_number(file);
  const bool eight_bits = header_number(file) == 255;
  file.get();
  if (!file || kind != std::array<char, 2>{'P', '6'} || !eight_bits || picture.width < 1 || picture.height < 1)
    throw std::runtime_error("the picture must be a binary PPM (P6) with 8 bits a channel, got " + path);
  picture.pixels.resize(static_cast<size_t>(picture.height) * picture.width * 3);
  if (!file.read(reinterpret_cast<char*>(picture.pixels.data()), picture.pixels.size()))
    throw std::runtime_error("the picture must have all its rows, got the first part of " + path);
  return picture;
}

/** Return a tensor over the pixels of a picture that lives as long as it is used. */
Ort::Value picture_tensor(Picture& picture) {
  static const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
  const std::array<int64_t, 3> shape{picture.height, picture.width, 3};
  return Ort::Value::CreateTensor<uint8_t>(memory, picture.pixels.data(), picture.pixels.size(), shape.data(),
                                           shape.size());
}

/** Print the boxes of a picture as JSON; `class` is an index into the exported classes. */
void print_detections(Ort::Session& session, Picture& picture, float least) {
  const Ort::Value input = picture_tensor(picture);
  const std::array<const char*, 1> given{"picture"};
  const std::array<const char*, 4> wanted{"boxes", "classes", "scores", "probabilities"};
  const auto found = session.Run(Ort::RunOptions{nullptr}, given.data(), &input, 1, wanted.data(), wanted.size());
  const float* boxes = found[0].GetTensorData<float>();
  const float *scores = found[2].GetTensorData<float>(), *probabilities = found[3].GetTensorData<float>();
  const int64_t* classes = found[1].GetTensorData<int64_t>();
  const size_t n_boxes = found[1].GetTensorTypeAndShapeInfo().GetElementCount();
  constexpr size_t most = 10;  // boxes of a class, which come the best first
  const char* separator = "";
  std::cout << std::setprecision(std::numeric_limits<float>::max_digits10) << "[";
  for (size_t row = 0; row < n_boxes; ++row) {
    if ((row >= most && classes[row - most] == classes[row]) || probabilities[row] < least) continue;
    const float* box = boxes + 4 * row;
    std::cout << separator << "{\"class\":" << classes[row];
    separator = ",";
    std::cout << ",\"box\":[" << box[0] << "," << box[1] << "," << box[2] << "," << box[3] << "]";
    std::cout << ",\"score\":" << scores[row] << ",\"probability\":";
    if (std::isnan(probabilities[row])) std::cout << "null}";  // a class without calibrated probabilities
    else std::cout << probabilities[row] << "}";
  }
  std::cout << "]\n";
}

/** Return whether a file decides on pictures. */
bool decides(Ort::Session& session) {
  Ort::AllocatorWithDefaultOptions allocator;
  for (size_t index = 0; index < session.GetOutputCount(); ++index)
    if (std::string(session.GetOutputNameAllocated(index, allocator).get()) == "decision") return true;
  return false;
}

/** Print the decision on a picture as JSON: 0 is ok, k the k-th of the exported classes, -1 unknown. */
void print_decision(Ort::Session& session, Picture& picture) {
  const Ort::Value input = picture_tensor(picture);
  const std::array<const char*, 1> given{"picture"};
  const std::array<const char*, 2> wanted{"decision", "probability"};
  const auto found = session.Run(Ort::RunOptions{nullptr}, given.data(), &input, 1, wanted.data(), wanted.size());
  std::cout << "{\"decision\":" << *found[0].GetTensorData<int64_t>();
  std::cout << ",\"probability\":" << *found[1].GetTensorData<float>() << "}\n";
}

int main(int n_arguments, char** arguments) try {
  if (n_arguments < 3) throw std::runtime_error("give a detector, a picture and, if you like, a least probability");
  Picture picture = read_picture(arguments[2]);
  Ort::Env environment(ORT_LOGGING_LEVEL_ERROR);
  Ort::Session session(environment, arguments[1], Ort::SessionOptions());
  if (decides(session)) print_decision(session, picture);
  print_detections(session, picture, n_arguments > 3 ? std::strtof(arguments[3], nullptr) : 0);
  return 0;
} catch (const std::exception& problem) {
  std::cerr << problem.what() << "\n";
  return 1;
}
