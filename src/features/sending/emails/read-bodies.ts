/** @module Reads the bodies of a stored email; those of a broadcast are rendered for their recipient. */
import type { App } from '#features/core/app/app.ts'
import { createBodyReader } from '#features/core/app/stored-content.ts'
import type { StoredEmail } from './read.ts'
import { attachmentRefs, isSystemMail } from './wire.ts'

/**
 * Renders the bodies of a broadcast email, by row id, for its recipient; empty if the template fails for that
 * recipient.
 */
export type RenderBodies = (
  emailId: number,
) => Promise<{ readonly html?: string | undefined; readonly text?: string | undefined }>

export interface EmailBodies {
  readonly html: string | null
  readonly text: string | null
  /** Whether a body or an attachment is missing from the content store. */
  readonly isContentMissing: boolean
}

/** The bodies that the account may read: none of system mail. */
export async function readEmailBodies(
  app: Pick<App, 'content'>,
  email: StoredEmail,
  renderBodies: RenderBodies,
): Promise<EmailBodies> {
  const isHidden = isSystemMail(email)
  const bodies = createBodyReader(app)
  bodies.check(attachmentRefs(email))
  // The rendered bodies need the stored sources.
  if (email.isOfBroadcast) bodies.check([email.htmlRef ?? undefined, email.textRef ?? undefined])
  const read = (ref: number | null) => (isHidden ? null : bodies.read(ref))
  const rendered = email.isOfBroadcast ? (bodies.isMissing ? {} : await renderBodies(email.id)) : undefined
  const html = rendered ? (rendered.html ?? null) : read(email.htmlRef)
  const text = rendered ? (rendered.text ?? null) : read(email.textRef)
  return { html, text, isContentMissing: bodies.isMissing }
}
