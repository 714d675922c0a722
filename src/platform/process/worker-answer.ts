/** @module The Worker's side of `askWorker`: answers the one request that a short-lived Worker gets. */

declare const self: Worker

/** What the Worker posts. */
export type WorkerAnswer<Answer> = { readonly answer: Answer } | { readonly error: string }

export function answerRequest<Request, Answer>(answer: (request: Request) => Answer | Promise<Answer>): void {
  self.onmessage = async ({ data }: MessageEvent<Request>) => {
    try {
      self.postMessage({ answer: await answer(data) } satisfies WorkerAnswer<Answer>)
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error)
      self.postMessage({ error: message } satisfies WorkerAnswer<Answer>)
    }
  }
}
