/** @module Bodies of messages as text, whole or cut. */
import type { App } from '#features/app.ts'

/** A body of the content store as text; null: there is none. */
export const bodyText = (app: Pick<App, 'content'>, ref: number | null): string | null =>
  ref === null ? null : new TextDecoder().decode(app.content.get(ref))

/** The first `mostBytes` of a body as text, without half a character at its end. */
export function cutText(
  app: Pick<App, 'content'>,
  ref: number | null,
  mostBytes: number,
): { readonly text: string | null; readonly isCut: boolean } {
  if (ref === null) return { text: null, isCut: false }
  const bytes = app.content.get(ref)
  if (bytes.length <= mostBytes) return { text: new TextDecoder().decode(bytes), isCut: false }
  // As a stream it keeps an unfinished character back.
  return { text: new TextDecoder().decode(bytes.subarray(0, mostBytes), { stream: true }), isCut: true }
}
