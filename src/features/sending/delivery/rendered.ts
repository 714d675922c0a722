/**
 * @module Subject and bodies of a broadcast's email, rendered for its recipient: the same at every attempt and whenever somebody looks, because source,
 * data and contact were stored when the recipients were fixed. Never stores what it made.
 */
import type { App } from '#features/core/app/app.ts'
import type { DraftExtra } from '#features/sending/queue/new-email.ts'
import { unsubscribeFacts, unsubscribeUrl } from '#features/sending/unsubscribe/headers.ts'
import { unsubscribeToken } from '#features/sending/unsubscribe/token.ts'
import { broadcastDataJson, contactFault, isPlain, subjectFault } from '#features/setup/templates/broadcast-data.ts'
import { oneLine, withSubjectInLine } from '#features/setup/templates/render.ts'
import { prepared } from '#platform/db/open.ts'
import { AppError } from '#platform/errors.ts'
import { RENDER_INTERRUPTED, type RenderOutcome, type TemplateSource } from '#platform/template/renderer.ts'
import { MiB } from '#platform/units.ts'

export interface RenderedMail {
  readonly subject: string
  readonly html: string | undefined
  readonly text: string | undefined
}

/** The template does not work for this recipient; the message says why. */
export class TemplateFailure extends Error {}

interface Row {
  accountId: number
  from: string
  extra: string | null
  source: string
  htmlRef: number | null
  textRef: number | null
  shared: string
  recipientId: number
  address: string
}

const sql = prepared((db) => ({
  mail: db.prepare<Row, [number]>(
    `SELECT emails.account_id AS accountId, emails.from_address AS "from", emails.extra, broadcasts.subject AS source,
     emails.html_ref AS htmlRef, emails.text_ref AS textRef, template_data AS shared, recipients.id AS recipientId, address
     FROM emails JOIN broadcasts ON broadcasts.id = broadcast_id JOIN recipients ON email_id = emails.id
     WHERE emails.id = ? LIMIT 1`,
  ),
}))

/** So often the renderer may not survive the email of a recipient; then the template is at fault. It is counted until the service ends. */
const MOST_INTERRUPTIONS = 3
/** Recipients of whom that is known: it is rare. */
const MOST_INTERRUPTED = 10_000

/** Octets of sources that are kept at hand: nearly always those of one broadcast. */
const MOST_KEPT_BYTES = 8 * MiB

/**
 * Makes the function that renders the email of a broadcast by its row id. Rejects with TemplateFailure when the template is at fault, with another
 * error when it may work later.
 */
export function createBroadcastRenderer(app: App): (emailId: number, urgency: 'now' | 'bulk') => Promise<RenderedMail> {
  const kept = new Map<number, string>()
  let keptBytes = 0

  const sourceOf = (ref: number | null): string | undefined => {
    if (ref === null) return undefined
    const known = kept.get(ref)
    if (known !== undefined) return known
    const source = Buffer.from(app.content.get(ref)).toString('utf8')
    if (keptBytes + source.length > MOST_KEPT_BYTES) {
      kept.clear()
      keptBytes = 0
    }
    kept.set(ref, source)
    keptBytes += source.length
    return source
  }

  const interruptions = new Map<number, number>()

  /** Waits for what is rendered for a recipient; the last interruption it may have is a TemplateFailure. */
  const ofRecipient = async (recipientId: number, rendering: Promise<RenderOutcome>): Promise<RenderOutcome> => {
    try {
      const outcome = await rendering
      interruptions.delete(recipientId)
      return outcome
    } catch (error) {
      if (!(error instanceof AppError && error.code === RENDER_INTERRUPTED)) throw error
      const count = (interruptions.get(recipientId) ?? 0) + 1
      interruptions.delete(recipientId)
      if (count >= MOST_INTERRUPTIONS) throw new TemplateFailure(error.message)
      if (interruptions.size >= MOST_INTERRUPTED) interruptions.clear()
      interruptions.set(recipientId, count)
      throw error
    }
  }

  return async (emailId, urgency) => {
    const row = sql(app.db).mail.get(emailId)
    if (!row) throw new Error('the broadcast of the email is missing')
    const { contact } = JSON.parse(row.extra ?? '{}') as DraftExtra
    if (!contact) throw new Error('the email has no contact')
    const source: TemplateSource = { subject: row.source, html: sourceOf(row.htmlRef), text: sourceOf(row.textRef) }
    if (Object.values(source).every((part) => part === undefined || isPlain(part)))
      return { subject: row.source, html: source.html, text: source.text }
    const facts = unsubscribeFacts(app.db, {
      emailId,
      recipientId: row.recipientId,
      address: row.address,
      from: row.from,
    })
    const rendering = app.renderer.render({
      accountId: row.accountId,
      urgency,
      source: withSubjectInLine(source),
      dataJson: broadcastDataJson({
        shared: row.shared,
        contact,
        unsubscribeUrl: facts ? unsubscribeUrl(app.config, unsubscribeToken(app.keys, facts)) : '',
      }),
    })
    const outcome = await ofRecipient(row.recipientId, rendering)
    if (outcome.kind === 'fault') throw new TemplateFailure(contactFault(outcome.fault))
    const { html, text } = outcome.parts
    const rendered = outcome.parts.subject ?? ''
    const fault = subjectFault(rendered)
    if (fault !== undefined) throw new TemplateFailure(fault)
    return { subject: oneLine(rendered), html, text }
  }
}
