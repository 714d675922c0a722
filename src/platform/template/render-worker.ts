/**
 * @module Entry point of the render Worker: renders and checks templates, one request at a time. Its only state is a
 * cache of compiled templates, which never changes a result.
 */
import { Engine } from './engine.ts'
import type { FromRenderWorker, ToRenderWorker } from './renderer.ts'

declare const self: Worker

const post = (message: FromRenderWorker): void => self.postMessage(message)

const engine = new Engine()

self.onmessage = ({ data }: MessageEvent<ToRenderWorker>) => {
  if (data.type === 'render')
    post({ type: 'rendered', id: data.id, outcome: engine.render(data.source, data.dataJson, data.share) })
  else post({ type: 'checked', id: data.id, faults: engine.check(data.source) })
}

post({ type: 'ready' })
