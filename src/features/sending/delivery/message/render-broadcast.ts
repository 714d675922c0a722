/** @module Renders broadcast emails for their recipients, some at a time. */
import type { App } from '#features/core/app/app.ts'
import type { DraftExtra } from '#features/sending/queue/email.ts'
import type { emails } from '#features/sending/queue/tables.ts'
import {
  createUnsubscribeToken,
  createUnsubscribeUrl,
  readUnsubscribeFacts,
} from '#features/sending/unsubscribe/headers.ts'
import {
  findSubjectProblem,
  formatBroadcastData,
  hasNoTemplateSyntax,
  toContactMessage,
} from '#features/setup/templates/broadcast-data.ts'
import { joinSubjectLines, toOneLine } from '#features/setup/templates/render.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { AppError } from '#platform/errors.ts'
import { FairQueue, type Owner } from '#platform/queue/fair-queue.ts'
import { RENDER_INTERRUPTED, type RenderOutcome, type TemplateSource } from '#platform/template/renderer.ts'
import { MiB } from '#platform/units.ts'

export interface RenderedMail {
  readonly subject: string
  readonly html: string | undefined
  readonly text: string | undefined
}

/** The template fails for this recipient; the message says why. */
export class TemplateError extends Error {}

interface Row extends Pick<typeof emails.$inferSelect, 'accountId' | 'from' | 'extra' | 'htmlRef' | 'textRef'> {
  source: string
  shared: string
  recipientId: number
  address: string
}

const sql = prepareStatements((db) => ({
  mail: db.prepare<Row, [number]>(
    `SELECT emails.account_id AS accountId, emails.from_address AS "from", emails.extra, broadcasts.subject AS source,
     emails.html_ref AS htmlRef, emails.text_ref AS textRef, template_data AS shared, recipients.id AS recipientId, address
     FROM emails JOIN broadcasts ON broadcasts.id = broadcast_id JOIN recipients ON email_id = emails.id
     WHERE emails.id = ? LIMIT 1`,
  ),
}))

/** Crashes of the renderer for one recipient until the template counts as faulty; forgotten when the service ends. */
const MAX_INTERRUPTIONS = 3
/** Recipients with counted crashes; these are rare. */
const MAX_INTERRUPTED_RECIPIENTS = 10_000

/** Octets of cached sources: nearly always those of one broadcast. */
const MAX_CACHED_BYTES = 8 * MiB

/** Rejects with TemplateError for a faulty template, else a later attempt may succeed. */
export function createBroadcastRenderer(app: App): (emailId: number, urgency: 'now' | 'bulk') => Promise<RenderedMail> {
  const cache = new Map<number, string>()
  let cachedBytes = 0

  const readSource = (ref: number | null): string | undefined => {
    if (ref === null) return undefined
    const cached = cache.get(ref)
    if (cached !== undefined) return cached
    const source = Buffer.from(app.content.get(ref)).toString('utf8')
    if (cachedBytes + source.length > MAX_CACHED_BYTES) {
      cache.clear()
      cachedBytes = 0
    }
    cache.set(ref, source)
    cachedBytes += source.length
    return source
  }

  const interruptions = new Map<number, number>()

  /** Awaits the rendering for a recipient and turns the last allowed crash into a TemplateError. */
  const awaitRendering = async (recipientId: number, rendering: Promise<RenderOutcome>): Promise<RenderOutcome> => {
    try {
      const outcome = await rendering
      interruptions.delete(recipientId)
      return outcome
    } catch (error) {
      if (!(error instanceof AppError && error.code === RENDER_INTERRUPTED)) throw error
      const count = (interruptions.get(recipientId) ?? 0) + 1
      interruptions.delete(recipientId)
      if (count >= MAX_INTERRUPTIONS) throw new TemplateError(error.message)
      if (interruptions.size >= MAX_INTERRUPTED_RECIPIENTS) interruptions.clear()
      interruptions.set(recipientId, count)
      throw error
    }
  }

  return async (emailId, urgency) => {
    const row = sql(app.db).mail.get(emailId)
    if (!row) throw new Error('the broadcast of the email is missing')
    const { contact } = JSON.parse(row.extra ?? '{}') as DraftExtra
    if (!contact) throw new Error('the email has no contact')
    const source: TemplateSource = { subject: row.source, html: readSource(row.htmlRef), text: readSource(row.textRef) }
    if (Object.values(source).every((part) => part === undefined || hasNoTemplateSyntax(part)))
      return { subject: row.source, html: source.html, text: source.text }
    const facts = readUnsubscribeFacts(app.db, {
      emailId,
      recipientId: row.recipientId,
      address: row.address,
      from: row.from,
    })
    const rendering = app.renderer.render({
      accountId: row.accountId,
      urgency,
      source: joinSubjectLines(source),
      dataJson: formatBroadcastData({
        shared: row.shared,
        contact,
        unsubscribeUrl: facts ? createUnsubscribeUrl(app.config, createUnsubscribeToken(app.keys, facts)) : '',
      }),
    })
    const outcome = await awaitRendering(row.recipientId, rendering)
    if (outcome.kind === 'fault') throw new TemplateError(toContactMessage(outcome.fault))
    const { html, text } = outcome.parts
    const rendered = outcome.parts.subject ?? ''
    const problem = findSubjectProblem(rendered)
    if (problem !== undefined) throw new TemplateError(problem)
    return { subject: toOneLine(rendered), html, text }
  }
}

/** A body has a MiB or two. While one account renders slowly, others have capacity left. */
const MAX_CONCURRENT_BODIES = 32
const MAX_BODIES_PER_ACCOUNT = 8

/** `T` identifies the owner of a body, by object identity. */
export class RenderQueue<T> {
  readonly #waiting = new FairQueue<{ readonly owner: T; readonly begin: () => void }>()
  readonly #waitingOwners = new Set<T>()
  /** Owners being rendered or holding a rendered body, with their account. */
  readonly #rendering = new Map<T, Owner>()

  /** Calls `begin` immediately, or when it is the owner's turn. */
  enqueue(owner: T, accountId: number, begin: () => void): void {
    this.#waiting.push(accountId, { owner, begin })
    this.#waitingOwners.add(owner)
    this.#beginNext()
  }

  /** Frees the slot of an owner whose body was sent or dropped, for the next rendering. Ignores unknown owners. */
  leave(owner: T): void {
    if (this.#waitingOwners.delete(owner)) this.#waiting.remove((waiting) => waiting.owner === owner)
    if (this.#rendering.delete(owner)) this.#beginNext()
  }

  /** Drops all waiting owners; they never begin. */
  clear(): void {
    this.#waiting.remove(() => true)
    this.#waitingOwners.clear()
  }

  #beginNext(): void {
    while (this.#rendering.size < MAX_CONCURRENT_BODIES) {
      const next = this.#waiting.shift((accountId) => this.#countOf(accountId) < MAX_BODIES_PER_ACCOUNT)
      if (!next) return
      const { owner, begin } = next.item
      this.#waitingOwners.delete(owner)
      this.#rendering.set(owner, next.owner)
      begin()
    }
  }

  #countOf(accountId: Owner): number {
    let count = 0
    for (const other of this.#rendering.values()) if (other === accountId) count++
    return count
  }
}
