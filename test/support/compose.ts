/** @module Composes a whole message in one call, for tests that are not about sending. */
import { type ComposeInput, composeMessage } from '#protocols/mime/compose.ts'
import { encodeBase64, encodeText } from '#protocols/mime/encode.ts'

export interface TestMessage extends Omit<ComposeInput, 'text' | 'html' | 'attachments'> {
  readonly text?: string
  readonly html?: string
  readonly attachments: readonly { filename: string; contentType: string; contentId?: string; content: Uint8Array }[]
}

/** Runs a generator to its end and returns its value. */
export function runSteps<T>(steps: Generator<void, T>): T {
  for (;;) {
    const { done, value } = steps.next()
    if (done) return value
  }
}

/** The message without a DKIM signature. */
export function composeToBuffer({ text, html, attachments, ...fields }: TestMessage): Buffer {
  const { header, body } = composeMessage({
    ...fields,
    ...(text !== undefined && { text: runSteps(encodeText(Buffer.from(text))) }),
    ...(html !== undefined && { html: runSteps(encodeText(Buffer.from(html))) }),
    attachments: attachments.map(({ content, ...rest }) => ({ ...rest, content: runSteps(encodeBase64([content])) })),
  })
  return Buffer.concat([header, ...body])
}
