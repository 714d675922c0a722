/** @module Runs first in every Worker: tells `startWithDescriptors`, which waits for a limited time, that it has started. */
import { workerData } from 'node:worker_threads'

// An error here would end the Worker.
if (workerData instanceof Int32Array) {
  Atomics.store(workerData, 0, 1)
  Atomics.notify(workerData, 0)
}
