"""Texts to vectors, labels and entities, by models in this process. Arrays are NumPy's.

    from sluice import text

    text.embed(["GPUs are shared."], model="all-MiniLM-L6-v2")          # float32 [1, 384]
    text.classify(["A joy to use."], model="distilbert-sst2")           # [("POSITIVE", 0.99)]
    text.rerank("who leases GPUs", passages, model="ms-marco-MiniLM")   # [(3, 8.6), (0, -4.1)]
    text.tag(["Ada lived in London."], model="bert-base-NER")           # [[Entity("PER", ...)]]

A model is a folder as sentence-transformers or transformers saves it; it stays open as long as the
process, and Embedder, Classifier and Tagger are models that close earlier. A text that cannot be
answered (it is empty, say) raises TextError, which names it; with errors="report" its vector is NaN,
its label None, and the model's `last_report` says why.
"""
import collections, ctypes, functools, json, os, pathlib, threading

try:
    import numpy
except ImportError as e:  # pragma: no cover
    raise ImportError("sluice.text needs NumPy: pip install numpy") from e

__all__ = ["Classifier", "Embedder", "Entity", "ModelError", "Tagger", "TextError", "classify", "embed", "rerank", "tag"]

_ERROR_BYTES, _BLOCK = 1024, 64

Entity = collections.namedtuple("Entity", "type text begin end score")


class ModelError(ValueError):
    """A model that cannot be opened, or an option that is not valid."""


class TextError(ValueError):
    """Texts that have no answer; `errors` has the reasons by their index."""

    def __init__(self, errors):
        self.errors = errors
        first = min(errors)
        more = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
        super().__init__(f"text {first}: {errors[first]}{more}")


@functools.lru_cache(maxsize=None)
def _library():
    here = pathlib.Path(__file__).resolve().parent
    named = os.environ.get("SLUICE_MODELS_LIBRARY")
    tried = [pathlib.Path(named)] if named else [here / "libsluice_models.so",
                                                 here.parent.parent / "build" / "libsluice_models.so"]
    for path in tried:
        if path.exists(): return _declared(ctypes.CDLL(str(path)))
    raise ImportError("libsluice_models.so is not at " + " nor at ".join(map(str, tried)) +
                      "; build it (ninja -C build sluice_model_bindings) or set SLUICE_MODELS_LIBRARY")


def _declared(lib):
    text, size, pointer = ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p
    texts, report, error = [ctypes.POINTER(text), ctypes.POINTER(size)], ctypes.POINTER(pointer), [text, size]
    for kind in ("embedder", "classifier", "tagger"):
        opened, close = getattr(lib, f"sluice_{kind}_open"), getattr(lib, f"sluice_{kind}_close")
        opened.restype, opened.argtypes = pointer, [text, text, ctypes.c_int, *error]
        close.restype, close.argtypes = None, [pointer]
    lib.sluice_embedder_dimensions.restype, lib.sluice_embedder_dimensions.argtypes = size, [pointer]
    lib.sluice_classifier_labels.restype, lib.sluice_classifier_labels.argtypes = text, [pointer]
    lib.sluice_embedder_run.argtypes = [pointer, *texts, size, pointer, report, *error]
    lib.sluice_classifier_run.argtypes = [pointer, *texts, *texts, size, ctypes.c_int, pointer, report, *error]
    lib.sluice_tagger_run.argtypes = [pointer, *texts, size, text, report, *error]
    lib.sluice_models_free.restype, lib.sluice_models_free.argtypes = None, [pointer]
    return lib


def _listed(texts):
    if isinstance(texts, (str, bytes, dict)): raise TypeError(f"a list of texts is needed, not one {type(texts).__name__}")
    texts = list(texts)
    for i, text in enumerate(texts):
        if not isinstance(text, str): raise TypeError(f"text {i} is of type {type(text).__name__}, not str")
    return [text.encode("utf-8", "replace") for text in texts]


def _blocks(count):
    """Ctrl-C is seen between two blocks; what a text gives does not depend on its block."""
    return [slice(begin, begin + _BLOCK) for begin in range(0, count, _BLOCK)] or [slice(0, 0)]


def _passed(texts):
    """For C: pointers and sizes. They live as long as `texts`."""
    return (ctypes.c_char_p * len(texts))(*texts), (ctypes.c_size_t * len(texts))(*map(len, texts))


class _Model:
    """Open until close(), the end of a with block, or the end of the object."""

    _kind = _model = None

    def __init__(self, folder, options, threads):
        self.last_report = {}  # of the call that ended last, in whichever thread
        self._process, self._calls, self._idle = os.getpid(), 0, threading.Condition()
        error = ctypes.create_string_buffer(_ERROR_BYTES)
        given = json.dumps({name: value for name, value in options.items() if value is not None})
        self._model = self._function("open")(os.fspath(folder).encode(), given.encode(), threads, error, _ERROR_BYTES)
        if not self._model: raise ModelError(error.value.decode("utf-8", "replace"))

    def _function(self, name):
        return getattr(_library(), f"sluice_{self._kind}_{name}")

    def close(self):
        """Waits for calls of other threads. After a fork the child leaves the model to its parent."""
        if not self._model: return
        if self._process != os.getpid():
            self._model = None
            return
        with self._idle:
            self._idle.wait_for(lambda: self._calls == 0)
            model, self._model = self._model, None
        if model: self._function("close")(model)

    def __enter__(self): return self
    def __exit__(self, *_): self.close()
    def __del__(self): self.close()

    def _run(self, arguments):
        if self._process != os.getpid(): raise ModelError("the model was opened before a fork: open it in the child")
        with self._idle:
            if not self._model: raise ModelError("the model is closed")
            self._calls += 1
        try: return self._run_open(arguments)
        finally:
            with self._idle:
                self._calls -= 1
                self._idle.notify_all()

    def _run_open(self, arguments):
        error, report = ctypes.create_string_buffer(_ERROR_BYTES), ctypes.c_void_p()
        if self._function("run")(self._model, *arguments, ctypes.byref(report), error, _ERROR_BYTES) != 0:
            raise ModelError(error.value.decode("utf-8", "replace"))
        try: return json.loads(ctypes.string_at(report.value))
        finally: _library().sluice_models_free(report)

    def _run_blocks(self, count, errors, arguments):
        """arguments: of one slice of the texts. The reports of all, as one."""
        if errors not in ("raise", "report"): raise ValueError("errors is 'raise' or 'report'")
        whole = {"errors": {}, "truncated": [], "entities": []}
        for block in _blocks(count):
            report = self._run(arguments(block))
            whole["errors"].update((int(i) + block.start, why) for i, why in report["errors"].items())
            whole["truncated"] += [i + block.start for i in report["truncated"]]
            whole["entities"] += report.get("entities", [])
        self.last_report = whole
        if whole["errors"] and errors == "raise": raise TextError(whole["errors"])
        return whole


class Embedder(_Model):
    """Options are those of `sluice embed`; None: what the folder says. threads=0: all. device="cuda" computes on a GPU,
    in precision "fp32", "fp16", "bf16" or "auto"; fp16 and bf16 are refused where they lose more than max_loss."""

    _kind = "embedder"

    def __init__(self, folder, *, max_length=None, pooling=None, normalize=None, dimensions=None, prompt=None,
                 prompt_name=None, threads=0, device=None, precision=None, max_loss=None):
        super().__init__(folder, {"max_length": max_length, "pooling": pooling, "normalize": normalize, "dimensions": dimensions,
                                  "prompt": prompt, "prompt_name": prompt_name, "device": device, "precision": precision,
                                  "max_loss": max_loss}, threads)
        self.dimensions = self._function("dimensions")(self._model)

    def embed(self, texts, errors="raise"):
        """float32 [texts, dimensions]; of one str, its vector."""
        if isinstance(texts, str): return self.embed([texts], errors)[0]
        texts = _listed(texts)
        out = numpy.empty((len(texts), self.dimensions), numpy.float32)
        report = self._run_blocks(len(texts), errors, lambda block: [
            *_passed(texts[block]), len(texts[block]), out[block].ctypes.data])
        out[list(report["errors"])] = numpy.nan
        return out


class Classifier(_Model):
    _kind = "classifier"

    def __init__(self, folder, *, max_length=None, threads=0, device=None, precision=None, max_loss=None):
        super().__init__(folder, {"max_length": max_length, "device": device, "precision": precision, "max_loss": max_loss}, threads)
        said = json.loads(self._function("labels")(self._model))
        self.labels, self.problem = said["names"], said["problem"]

    def scores(self, texts, pairs=None, logits=False, errors="raise", with_errors=False):
        """float32 [texts, labels]; with_errors, also the errors by index."""
        texts, pairs = _listed(texts), None if pairs is None else _listed(pairs)
        if pairs is not None and len(pairs) != len(texts): raise ValueError(f"{len(pairs)} second texts for {len(texts)}")
        out = numpy.empty((len(texts), len(self.labels)), numpy.float32)
        report = self._run_blocks(len(texts), errors, lambda block: [
            *_passed(texts[block]), *((None, None) if pairs is None else _passed(pairs[block])), len(texts[block]),
            int(logits), out[block].ctypes.data])
        out[list(report["errors"])] = numpy.nan
        return (out, report["errors"]) if with_errors else out

    def classify(self, texts, pairs=None, top=None, errors="raise"):
        """The best label of each text, with its score; with top, a list of so many."""
        made = []
        all_scores, faults = self.scores(texts, pairs, errors=errors, with_errors=True)
        for i, scores in enumerate(all_scores):
            best = [(self.labels[k], float(scores[k])) for k in numpy.argsort(-scores, kind="stable")[:top or 1]]
            made.append(None if i in faults else best if top else best[0])
        return made

    def rerank(self, query, passages, top=None, errors="raise"):
        """(index, score) of the passages, the best first."""
        passages = list(passages)
        if len(self.labels) != 1: raise ModelError(f"a model with {len(self.labels)} outputs: a cross-encoder has one")
        scores, faults = self.scores([query] * len(passages), passages, logits=True, errors=errors, with_errors=True)
        order = numpy.argsort(-scores[:, 0], kind="stable")  # NaN is last
        return [(int(i), float(scores[i, 0])) for i in order if int(i) not in faults][:top]


class Tagger(_Model):
    _kind = "tagger"

    def __init__(self, folder, *, max_length=None, threads=0, device=None, precision=None, max_loss=None):
        super().__init__(folder, {"max_length": max_length, "device": device, "precision": precision, "max_loss": max_loss}, threads)

    def tag(self, texts, words="first", errors="raise"):
        """A list of Entity for each text; offsets in code points, as Python's."""
        texts = _listed(texts)
        report = self._run_blocks(len(texts), errors, lambda block: [
            *_passed(texts[block]), len(texts[block]), words.encode()])
        return [[Entity(**entity) for entity in entities] for entities in report["entities"]]


@functools.lru_cache(maxsize=8)
def _opened(process, kind, folder, options):
    return kind(folder, **dict(options))


def _model(kind, folder, options):
    """One of this process; after a fork the child opens its own."""
    return _opened(os.getpid(), kind, os.fspath(folder), tuple(sorted(options.items())))


def embed(texts, model, errors="raise", **options):
    """Vectors of texts, float32 [texts, dimensions]; of one str, its vector. Options are those of Embedder."""
    return _model(Embedder, model, options).embed(texts, errors)


def classify(texts, model, pairs=None, top=None, errors="raise", **options):
    """(label, score) of each text, or of each text and its pair; with top, lists of so many."""
    return _model(Classifier, model, options).classify(texts, pairs, top, errors)


def rerank(query, passages, model, top=None, errors="raise", **options):
    """(index, score) of the passages for a query, the best first."""
    return _model(Classifier, model, options).rerank(query, passages, top, errors)


def tag(texts, model, words="first", errors="raise", **options):
    """The entities of each text; words: how a word's tokens give its label (first, highest, mean)."""
    return _model(Tagger, model, options).tag(texts, words, errors)
