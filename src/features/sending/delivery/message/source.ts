/**
 * @module Composes the message of an email again, to be shown: unsigned, without tracking, without the content of
 * attachments, and without the token with which anyone could unsubscribe the recipient. Never sends it.
 */
import { getTenantId } from '#features/core/accounts/work-budget.ts'
import type { App } from '#features/core/app/app.ts'
import type { EmailSource } from '#features/sending/emails/model.ts'
import type { DraftExtra } from '#features/sending/queue/email.ts'
import { describeAttachment, isContentDeleted, parseAttachments } from '#features/sending/queue/retire.ts'
import { createUnsubscribeUrl } from '#features/sending/unsubscribe/headers.ts'
import { ERASED_ADDRESS } from '#features/setup/suppression-store/suppression-list-key.ts'
import { MissingBlobError } from '#platform/content/read.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { serverBusy } from '#platform/http/body.ts'
import { KiB, MiB } from '#platform/units.ts'
import { domainOfMailbox } from '#protocols/address/parse.ts'
import { type Attachment, isUnencoded } from '#protocols/mime/attachment.ts'
import type { ComposeJob, TrackingSettings } from '../protocol.ts'
import { composeUnsigned, type SharedBody } from './compose.ts'
import { type ComposableEmail, createComposeJob, readComposableEmail } from './job.ts'
import { type createBroadcastRenderer, TemplateError } from './render-broadcast.ts'

const MAX_SOURCE_BYTES = 1 * MiB
/** Peak memory per octet of content: as read, and as encoded. */
const MEMORY_FACTOR = 3
/** As for the body of a request. */
const BYTES_PER_WORK_UNIT = 4 * KiB
/** Not used: jobs to be shown have no tracking. */
const NO_TRACKING: TrackingSettings = { ownUrl: '' }
/** In place of tokens. */
const HIDDEN = 'hidden'
/** The end of a header field: the next line does not continue it (RFC 5322 §2.2.3). */
const FIELD_END = /\r\n(?![ \t])/

const sql = prepareStatements((db) => ({
  // Erased recipients come last.
  recipient: db.prepare<{ id: number; address: string }, [number]>(
    `SELECT id, address FROM recipients WHERE email_id = ? ORDER BY address = '${ERASED_ADDRESS}', id LIMIT 1`,
  ),
  domain: db.prepare<{ domain: string; subdomain: string }, [number]>(
    'SELECT domain, sending_subdomain AS subdomain FROM domains WHERE id = ?',
  ),
  broadcast: db.prepare<{ id: number }, [number]>('SELECT id FROM broadcasts WHERE id = ?'),
}))

/**
 * Composes the source of an email, by row id, for its first recipient.
 * @param render renders the subject and bodies of a broadcast email
 */
export const createSourceReader =
  (app: App, render: ReturnType<typeof createBroadcastRenderer>) =>
  async (emailId: number, { isContentHidden }: { readonly isContentHidden: boolean }): Promise<EmailSource> => {
    const email = readComposableEmail(app.db, emailId)
    const recipient = sql(app.db).recipient.get(emailId)
    if (!email || !recipient) throw new Error('the email is missing')
    const compose = createShownJob(app, emailId, recipient, email)
    const show = async (isWithContent: boolean): Promise<EmailSource> => {
      if (isWithContent) app.workBudget.charge(email.accountId, email.sizeBytes / BYTES_PER_WORK_UNIT)
      const rendered = isWithContent && email.broadcastId !== null ? await renderBroadcast(render, emailId) : {}
      const bodies = isWithContent ? rendered : { htmlRef: null, textRef: null, isWhole: false }
      const job = { recipientId: recipient.id, compose: { ...compose, ...bodies } }
      const shared: SharedBody = { attachments: isWithContent ? describeAttachments(email) : [] }
      const { header, body } = await app.fairScheduler.runSteps(
        getTenantId(app.db, email.accountId),
        composeUnsigned(job, shared, app.content, NO_TRACKING),
      )
      return isWithContent
        ? toSource(header, body)
        : { headers: withoutBodyFields(decode(header)), source: null, truncated: false }
    }
    if (isContentHidden || !hasStoredContent(app, emailId, email)) return show(false)
    const memory = app.memory.reserve(email.sizeBytes * MEMORY_FACTOR)
    if (!memory) throw serverBusy()
    try {
      return await show(true)
    } catch (error) {
      if (error instanceof MissingBlobError) return show(false)
      throw error
    } finally {
      memory.release()
    }
  }

/** The compose job without tracking, and with the token of the unsubscribe links hidden. */
function createShownJob(
  app: App,
  emailId: number,
  recipient: { readonly id: number; readonly address: string },
  email: ComposableEmail,
): ComposeJob {
  const extra = JSON.parse(email.extra ?? '{}') as DraftExtra
  const found = sql(app.db).domain.get(email.domainId)
  const domain = found?.domain ?? domainOfMailbox(email.from)
  const returnPathDomain = found ? `${found.subdomain}.${found.domain}` : domain
  const unsubscribeHeaders = email.transactional === 1 ? {} : hideUnsubscribeTokens(app, returnPathDomain)
  return createComposeJob(app, {
    recipientId: recipient.id,
    emailId,
    rcptTo: recipient.address,
    // Its own unsubscribe headers replace those with tokens.
    email: { ...email, tracked: 0, transactional: 1, broadcastId: hasBroadcast(app, email) ? email.broadcastId : null },
    domain: { domain, returnPathDomain },
    extra: { ...extra, headers: { ...extra.headers, ...unsubscribeHeaders } },
  })
}

/** The headers of mail with `transactional: false`, without the token with which anyone could unsubscribe. */
export function hideUnsubscribeTokens(
  { config }: Pick<App, 'config'>,
  returnPathDomain: string,
): Record<string, string> {
  const url = createUnsubscribeUrl(config, HIDDEN)
  return {
    'List-Unsubscribe': `<${url}>, <mailto:${HIDDEN}@${returnPathDomain}?subject=${HIDDEN}>`,
    ...(url.startsWith('https:') && { 'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click' }),
  }
}

const hasBroadcast = ({ db }: App, { broadcastId }: ComposableEmail): boolean =>
  broadcastId !== null && sql(db).broadcast.get(broadcastId) !== null

/** An erased broadcast email has no data left to render. */
function hasStoredContent(app: App, emailId: number, email: ComposableEmail): boolean {
  if (isContentDeleted(app.db, emailId)) return false
  if (email.broadcastId === null) return true
  return email.extra !== null && (email.htmlRef !== null || email.textRef !== null) && hasBroadcast(app, email)
}

/** An email whose template fails is never sent; its headers are those before rendering. */
async function renderBroadcast(
  render: ReturnType<typeof createBroadcastRenderer>,
  emailId: number,
): Promise<Partial<ComposeJob>> {
  try {
    const { subject, html, text } = await render(emailId, 'now')
    return { subject, rendered: { html, text } }
  } catch (error) {
    if (error instanceof TemplateError) return { rendered: { html: undefined, text: undefined } }
    throw error
  }
}

/** The attachments, each with its size in place of its content. */
const describeAttachments = ({ attachments }: ComposableEmail): Attachment[] =>
  parseAttachments(attachments).map((file) => {
    const part = describeAttachment(file)
    const pieces = [Buffer.from(`[${file.size} bytes, not shown]\r\n`)]
    return { ...part, content: { encoding: isUnencoded(part) ? '7bit' : 'base64', pieces } }
  })

function toSource(header: Buffer, body: readonly Buffer[]): EmailSource {
  const pieces = [header, ...body]
  const truncated = pieces.reduce((sum, { length }) => sum + length, 0) > MAX_SOURCE_BYTES
  return {
    headers: decode(header),
    source: decode(Buffer.concat(pieces, truncated ? MAX_SOURCE_BYTES : undefined)),
    truncated,
  }
}

const decode = (bytes: Uint8Array): string => new TextDecoder().decode(bytes)

const withoutBodyFields = (header: string): string =>
  header
    .split(FIELD_END)
    .filter((field) => !/^content-/i.test(field))
    .join('\r\n')
