/** @module Links to files, as this interface shows them. */
import type { App } from '#features/core/app/app.ts'
import { createFileLink, type LinkedFile } from '#features/receiving/received/parts.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { RESEND_PREFIX } from './dialect.ts'

export const RESEND_FILES_PATH = `${RESEND_PREFIX}/files`

export function toFileWire(app: App, file: LinkedFile) {
  const { url, expiresAt } = createFileLink(app, RESEND_FILES_PATH, file)
  return { download_url: url, expires_at: isoTime(expiresAt) }
}
