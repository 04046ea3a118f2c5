/* Text models for other languages: plain C, no C++ types cross it.
 *
 *   char error[256];
 *   sluice_embedder* m = sluice_embedder_open("all-MiniLM-L6-v2", "{}", 0, error, sizeof error);
 *   float* vectors = malloc(count * sluice_embedder_dimensions(m) * sizeof *vectors);
 *   sluice_embedder_run(m, texts, sizes, count, vectors, &report, error, sizeof error);
 *   sluice_models_free(report);
 *   sluice_embedder_close(m);
 *
 * Texts are UTF-8, `sizes` in bytes. Functions that can fail return 0, or a code of
 * bindings/market.h with a message in `error` (cut to fit). A text that has no answer is no
 * failure: the report, JSON {"errors": {"3": "the text is empty"}, "truncated": [5]}, names it.
 * Reports are given to sluice_models_free. All may be called from several threads, with one model
 * too. `threads`: 0 for all that this process may use. */
#ifndef SLUICE_BINDINGS_MODELS_H
#define SLUICE_BINDINGS_MODELS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SLUICE_MODELS_API __attribute__((visibility("default")))

typedef struct sluice_embedder sluice_embedder;
typedef struct sluice_classifier sluice_classifier;
typedef struct sluice_tagger sluice_tagger;

SLUICE_MODELS_API const char* sluice_models_version(void);
SLUICE_MODELS_API void sluice_models_free(char* text);

/* `options`: JSON with max_length, pooling, normalize, dimensions, prompt, prompt_name; and device
 * (cpu, cuda), precision (fp32, fp16, bf16, auto) and max_loss, as all models take them. */
SLUICE_MODELS_API sluice_embedder* sluice_embedder_open(const char* folder, const char* options,
                                                        int threads, char* error,
                                                        size_t error_size);
SLUICE_MODELS_API void sluice_embedder_close(sluice_embedder* m);
SLUICE_MODELS_API size_t sluice_embedder_dimensions(const sluice_embedder* m);
/* `out`: dimensions numbers for each text. */
SLUICE_MODELS_API int sluice_embedder_run(const sluice_embedder* m, const char* const* texts,
                                          const size_t* sizes, size_t count, float* out,
                                          char** report, char* error, size_t error_size);

/* `options`: JSON with max_length, device, precision, max_loss. */
SLUICE_MODELS_API sluice_classifier* sluice_classifier_open(const char* folder, const char* options,
                                                            int threads, char* error,
                                                            size_t error_size);
SLUICE_MODELS_API void sluice_classifier_close(sluice_classifier* m);
/* JSON: {"names": [...], "problem": "single_label"}; valid as long as the model is. */
SLUICE_MODELS_API const char* sluice_classifier_labels(const sluice_classifier* m);
/* `pairs`: the second texts, or null. `out`: a number for each label of each text; `logits`: the
 * model's own. */
SLUICE_MODELS_API int sluice_classifier_run(const sluice_classifier* m, const char* const* texts,
                                            const size_t* sizes, const char* const* pairs,
                                            const size_t* pair_sizes, size_t count, int logits,
                                            float* out, char** report, char* error,
                                            size_t error_size);

SLUICE_MODELS_API sluice_tagger* sluice_tagger_open(const char* folder, const char* options,
                                                    int threads, char* error, size_t error_size);
SLUICE_MODELS_API void sluice_tagger_close(sluice_tagger* m);
/* `words`: first, highest or mean. The report has "entities" too, a list for each text. */
SLUICE_MODELS_API int sluice_tagger_run(const sluice_tagger* m, const char* const* texts,
                                        const size_t* sizes, size_t count, const char* words,
                                        char** report, char* error, size_t error_size);

#ifdef __cplusplus
}
#endif

#endif
