/**
 * @module Renders a broadcast for its first contacts before anything is sent, so that the sender learns of a missing
 * variable immediately and not from dead letters. Never sends, and never stores rendered text.
 */

import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import {
  type BroadcastContact,
  findSubjectProblem,
  formatBroadcastData,
  toContactMessage,
} from '#features/setup/templates/broadcast-data.ts'
import { joinSubjectLines } from '#features/setup/templates/render.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { AppError } from '#platform/errors.ts'
import { formatUuid } from '#platform/ids.ts'
import type { RenderOutcome, TemplateFault, TemplateSource } from '#platform/template/renderer.ts'
import type { broadcastRecipients } from './tables.ts'

/** Number of contacts for which the preflight renders. */
const PREFLIGHT_CONTACTS = 20

/**
 * Throws 422 `template_error` when all of the first contacts fail; returns a warning when some do.
 * @param shared the data that contacts share, from `formatSharedData`
 */
export async function preflightBroadcast(
  app: App,
  accountId: number,
  broadcastId: number,
  source: TemplateSource,
  shared: string,
): Promise<string | undefined> {
  const joined = joinSubjectLines(source)
  const snapshot = readFirstRecipients(app.db, broadcastId, PREFLIGHT_CONTACTS + 1)
  const recipients = snapshot.slice(0, PREFLIGHT_CONTACTS)
  const outcomes = await Promise.all(
    recipients.map((recipient) =>
      app.renderer.render({
        accountId,
        urgency: 'now',
        source: joined,
        dataJson: formatBroadcastData({
          shared,
          contact: toBroadcastContact(recipient),
          unsubscribeUrl: 'https://unsubscribe.invalid/',
        }),
      }),
    ),
  )
  const problems = outcomes.flatMap((outcome) => findProblem(outcome) ?? [])
  const [first] = problems
  if (!first) return undefined
  const scope =
    snapshot.length === 1
      ? 'the only contact'
      : `${snapshot.length > PREFLIGHT_CONTACTS ? 'the first' : 'all'} ${recipients.length} contacts`
  if (problems.length === recipients.length) {
    const message = `The templates fail for ${scope}: ${toContactMessage(first)}`
    throw new AppError(422, first.kind === 'limit' ? 'template_limit' : 'template_error', message, {
      details: [{ field: first.part ?? 'template', message: toContactMessage(first) }],
    })
  }
  return `The templates were tested with ${scope} and fail for ${problems.length} of them: ${toContactMessage(first)}`
}

/** The problem with a rendered message; undefined when there is none. */
function findProblem(outcome: RenderOutcome): TemplateFault | undefined {
  if (outcome.kind === 'fault') return outcome.fault
  const message = findSubjectProblem(outcome.parts.subject ?? '')
  return message === undefined
    ? undefined
    : { kind: 'error', part: 'subject', line: undefined, variable: undefined, message }
}

export type SnapshotRecipient = Readonly<Omit<typeof broadcastRecipients.$inferSelect, 'broadcastId'>>

const sql = prepareStatements((db) => ({
  first: db.prepare<SnapshotRecipient, [number, number]>(
    `SELECT contact_id AS contactId, contact_uuid AS contactUuid, email, metadata FROM broadcast_recipients WHERE broadcast_id = ?
     ORDER BY contact_id LIMIT ?`,
  ),
}))

export const readFirstRecipients = (db: Database, broadcastId: number, limit: number): SnapshotRecipient[] =>
  sql(db).first.all(broadcastId, limit)

/** A recipient in the form that templates see. */
export const toBroadcastContact = ({
  contactUuid,
  email,
  metadata,
}: Omit<SnapshotRecipient, 'contactId'>): BroadcastContact => ({
  id: formatUuid(contactUuid),
  email,
  metadata: JSON.parse(metadata ?? '{}') as Record<string, unknown>,
})
