/**
 * @module Contacts, their segments and topics; segments, also by their former name audiences. A segment is a contact
 * list, a contact an address on any of them, a topic a stream. A contact in no segment is on the list `General`, which
 * is made for it.
 */
import type { Database } from 'bun:sqlite'
import { type Static, Type } from '@sinclair/typebox'
import * as audience from '#features/audience/contact-lists/contacts.ts'
import { addSuppression, removeSuppression } from '#features/audience/suppressions/suppressions.ts'
import type { App } from '#features/core/app/app.ts'
import { requireScope } from '#features/setup/api-keys/scopes.ts'
import { changeList, createList, deleteList } from '#features/setup/contact-store/change-list.ts'
import { type Contact, findContact, listContacts } from '#features/setup/contact-store/find.ts'
import * as store from '#features/setup/contact-store/lists.ts'
import * as streams from '#features/setup/streams/streams.ts'
import { EVERY, suppressionOf, UNSUBSCRIBE } from '#features/setup/suppression-store/check.ts'
import type { RowWindow } from '#platform/db/open.ts'
import { attempt, invalid, notFound } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { OptionalNullable, StringEnum } from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import type { JsonObject } from '#platform/json-object.ts'
import { type Call, Fields, on, takes } from '../dialects/routes.ts'
import {
  createSlug,
  deletes,
  MAYBE_FLAG,
  MAYBE_TEXT,
  pageOf,
  pageOfRows,
  readPage,
  shows,
  TEXT,
  toReference,
} from './route.ts'

const READS = 'contacts:read'
const WRITES = 'contacts:write'
const GENERAL = 'General'

const NAMED = Fields({ name: TEXT })
const CHANGES = Fields({
  first_name: MAYBE_TEXT,
  last_name: MAYBE_TEXT,
  unsubscribed: MAYBE_FLAG,
  properties: OptionalNullable(
    Type.Record(
      Type.String({ pattern: '^[A-Za-z_]\\w{0,49}$' }),
      Type.Union([Type.String(), Type.Number(), Type.Boolean(), Type.Null()]),
      { additionalProperties: false, 'x-names': 'up to 50 letters, digits and "_"' },
    ),
  ),
})
const MAX_NAMED = 100
const SUBSCRIPTIONS = Type.Array(Fields({ id: TEXT, subscription: StringEnum(['opt_in', 'opt_out']) }), {
  maxItems: MAX_NAMED,
})
const CONTACT = Fields({ email: TEXT, ...CHANGES.properties, topics: OptionalNullable(SUBSCRIPTIONS) })
const NEW_CONTACT = Fields({
  ...CONTACT.properties,
  segments: OptionalNullable(Type.Array(Fields({ id: TEXT }), { maxItems: MAX_NAMED })),
})

type Changes = Static<typeof CHANGES>
type NewContact = Static<typeof CONTACT>
type Topics = Static<typeof SUBSCRIPTIONS>

const listContactRoutes = (path: string) => [
  on(`GET ${path}`, READS, (call) => toDetail(requireNamed(call))),
  takes(`PATCH ${path}`, WRITES, CHANGES, (call) => changeContact(call, requireNamed(call))),
  on(`DELETE ${path}`, WRITES, async (call) => {
    const { app, actor, id, part } = call
    const [{ email }] = requireNamed(call)
    await (part === '' ? audience.removeAddress(app, actor, email) : audience.removeContact(app, actor, id, email))
    return { object: 'contact', contact: part || id, deleted: true }
  }),
]

const listSegmentRoutes = (name: string) => [
  on(`GET /${name}`, READS, (call) =>
    pageOfRows(call, 'contact_lists', store.getList, (...of) => store.listContactLists(...of).lists, toSegment),
  ),
  takes(`POST /${name}`, WRITES, NAMED, async ({ app, actor, body }) => ({
    object: 'segment',
    ...toSegment(await createList(app, actor, body)),
  })),
  on(`GET /${name}/:id`, READS, shows('segment', store.getList, toSegment)),
  takes(`PATCH /${name}/:id`, WRITES, NAMED, async ({ app, actor, id, body }) =>
    toReference('segment', await changeList(app, actor, id, body)),
  ),
  on(`DELETE /${name}/:id`, WRITES, deletes('segment', deleteList)),
  on(`GET /${name}/:id/contacts`, READS, (call) => {
    const { db, accountId, id } = call
    const list = store.getList(db, accountId, id)
    const find = (_: Database, owner: number, contact: string) => findContact(db, owner, toAddress(contact))
    const listBelow = (_: Database, __: number, window: RowWindow) => listContacts(db, list, {}, window).contacts
    return pageOfRows(call, 'contacts', find, listBelow, (contact) => toListed([contact]), list.id)
  }),
  takes(`POST /${name}/:id/contacts`, WRITES, CONTACT, (call) => createContact(call, [call.id])),
  ...listContactRoutes(`/${name}/:id/contacts/:part`),
]

export const contactRoutes = [
  ...listSegmentRoutes('segments'),
  ...listSegmentRoutes('audiences'),
  on('GET /contacts', READS, (call) => {
    const { db, accountId, query } = call
    const source = {
      find: (id: string) => attempt(() => ({ id: requireContacts(call, id)[0].addressKey })),
      listBelow: ({ after = [''], limit }: RowWindow) =>
        audience.listAddresses(db, accountId, 'after', String(after[0]), limit),
      listAbove: ({ id }: { id: string }, limit: number) => audience.listAddresses(db, accountId, 'before', id, limit),
    }
    return readPage(query, source, ({ id }) => toListed(requireContacts(call, id)))
  }),
  takes('POST /contacts', WRITES, NEW_CONTACT, (call) =>
    createContact(call, call.body.segments?.map(({ id }) => id) ?? []),
  ),
  ...listContactRoutes('/contacts/:id'),
  on('GET /contacts/:id/segments', READS, (call) => {
    const lists = requireContacts(call, call.id).flatMap(({ listId }) => store.findListById(call.db, listId) ?? [])
    return pageOf(call.query, lists.map(toSegment))
  }),
  on('POST /contacts/:id/segments/:part', WRITES, async (call) => {
    const segment = store.getList(call.db, call.accountId, call.part)
    await audience.changeAddress(call.app, call.actor, requireContacts(call, call.id)[0].email, [segment])
    return { id: formatUuid(segment.uuid) }
  }),
  on('DELETE /contacts/:id/segments/:part', WRITES, leaveSegment),
  on('GET /contacts/:id/topics', READS, (call) =>
    pageOf(call.query, toTopics(call, requireContacts(call, call.id)[0].email)),
  ),
  takes('PATCH /contacts/:id/topics', WRITES, SUBSCRIPTIONS, async (call) => {
    const contacts = requireContacts(call, call.id)
    await subscribe(call, contacts[0].email, toSubscriptions(call, call.body))
    return { id: toId(contacts) }
  }),
]

/** The contacts of an address on their lists. */
type Contacts = readonly [Contact, ...Contact[]]

/**
 * Adds an address to segments. Programs say `unsubscribed: false` and `opt_in` of everybody whom they add; that does not
 * bring back who has left.
 */
async function createContact(call: Call<NewContact>, segmentIds: readonly string[]) {
  const { app, actor, db, accountId, body: contact } = call
  const segments = segmentIds.map((id) => store.getList(db, accountId, id))
  const { email } = audience.checkContact({ email: contact.email })
  const isHomeless = segments.length === 0 && audience.findContactsOf(db, accountId, email).length === 0
  const everything: Subscriptions = contact.unsubscribed ? [[EVERY, true]] : []
  const left = [...toSubscriptions(call, contact.topics ?? []), ...everything].filter(([, isOff]) => isOff)
  // First, so that who is added as unsubscribed gets no welcome.
  await subscribe(call, email, left)
  const lists = isHomeless ? [await requireGeneral(call)] : segments
  await audience.changeAddress(app, actor, email, lists, toMetadata(contact))
  return { object: 'contact', id: toId(requireContacts(call, email)) }
}

async function changeContact(call: Call<Changes>, contacts: Contacts) {
  const [{ email }] = contacts
  const { unsubscribed } = call.body
  await subscribe(call, email, unsubscribed == null ? [] : [[EVERY, unsubscribed]])
  await audience.changeAddress(call.app, call.actor, email, [], toMetadata(call.body))
  return { object: 'contact', id: toId(contacts) }
}

type Subscriptions = readonly (readonly [streamId: number, isUnsubscribed: boolean])[]

const toSubscriptions = ({ app, accountId }: Call, topics: Topics): Subscriptions =>
  topics.map(({ id, subscription }) => [requireTopic(app, accountId, id).id, subscription === 'opt_out'])

/** Stops mail with `transactional: false`, or lets it through again. Bounces and complaints stay. */
async function subscribe({ app, actor }: Call, address: string, subscriptions: Subscriptions): Promise<void> {
  if (subscriptions.length > 0) requireScope(actor, 'suppressions:write', 'to subscribe or unsubscribe a contact')
  for (const [streamId, isOff] of subscriptions)
    await (isOff
      ? addSuppression(app, actor, { address, reason: UNSUBSCRIBE, streamId })
      : removeSuppression(app, actor, address, UNSUBSCRIBE, streamId))
}

async function requireGeneral({ app, actor, db, accountId }: Call): Promise<store.ContactList> {
  const find = () => store.findListByName(db, accountId, GENERAL)
  return (
    find() ??
    (await createList(app, actor, { name: GENERAL }).catch((error: unknown) => {
      // Another request made it at the same time.
      const made = find()
      if (made) return made
      throw error
    }))
  )
}

/** A contact that leaves its last segment stays a contact. */
async function leaveSegment(call: Call) {
  const { app, actor, id, part } = call
  const contacts = requireContacts(call, id)
  const [{ email, listId }] = requireContacts(call, id, part)
  if (contacts.length === 1) {
    const general = await requireGeneral(call)
    if (general.id === listId)
      throw invalid('segment', `The contact is in no segment but ${GENERAL}; delete the contact instead.`)
    await audience.changeAddress(app, actor, email, [general])
  }
  await audience.removeContact(app, actor, part, email)
  return { object: 'contact', id: toId(contacts), audienceId: part.toLowerCase(), deleted: true }
}

/** Names and properties are entries of the metadata; an empty name is removed, so that fallbacks apply. */
const toMetadata = ({ first_name, last_name, properties }: Changes): JsonObject => ({
  ...properties,
  ...(first_name !== undefined && { first_name: first_name || null }),
  ...(last_name !== undefined && { last_name: last_name || null }),
})

/** The id of a contact is its address in base64url: it stays the same whatever lists the contact joins and leaves. */
const toId = ([{ addressKey }]: Contacts): string => Buffer.from(addressKey).toString('base64url')

const toAddress = (id: string): string => (id.includes('@') ? id : Buffer.from(id, 'base64url').toString())

/** @param segment the contact on this list only */
function requireContacts({ db, accountId }: Call, id: string, segment?: string): Contacts {
  const listId = segment === undefined ? undefined : store.getList(db, accountId, segment).id
  const found = audience.findContactsOf(db, accountId, toAddress(id))
  const [first, ...others] = found.filter((contact) => listId === undefined || contact.listId === listId)
  if (first) return [first, ...others]
  const place = segment === undefined ? '' : ' in this segment'
  throw notFound('contact_not_found', `Contact not found${place}; name it by its id or its address.`)
}

/** The contact that the path of `listContactRoutes` names, on all lists or on one. */
const requireNamed = (call: Call): Contacts =>
  call.part === '' ? requireContacts(call, call.id) : requireContacts(call, call.part, call.id)

export function toSegment({ uuid, name, createdAt }: store.ContactList) {
  return { id: formatUuid(uuid), name, created_at: isoTime(createdAt) }
}

const parseMetadata = ([{ metadata }]: Contacts): JsonObject => JSON.parse(metadata ?? '{}') as JsonObject

/** A contact is unsubscribed when no list has it as active or pending. */
export function toListed(contacts: Contacts) {
  const { first_name: first, last_name: last } = parseMetadata(contacts)
  return {
    id: toId(contacts),
    email: contacts[0].email,
    first_name: typeof first === 'string' ? first : null,
    last_name: typeof last === 'string' ? last : null,
    created_at: isoTime(contacts[0].createdAt),
    unsubscribed: contacts.every(({ status }) => status !== 'active' && status !== 'pending'),
  }
}

const toProperty = (value: unknown) =>
  typeof value === 'number'
    ? { type: 'number' as const, value }
    : { type: 'string' as const, value: typeof value === 'string' ? value : JSON.stringify(value) }

export function toDetail(contacts: Contacts) {
  const { first_name, last_name, ...others } = parseMetadata(contacts)
  const properties = Object.entries(others).map(([key, value]) => [key, toProperty(value)] as const)
  return { object: 'contact' as const, ...toListed(contacts), properties: Object.fromEntries(properties) }
}

export const toTopics = ({ app, accountId }: Pick<Call, 'app' | 'accountId'>, address: string) =>
  listTopics(app, accountId).map(({ id: streamId, uuid, name }) => {
    const stopped = suppressionOf(app.db, { accountId, address, transactional: false, streamId })
    const subscription = stopped ? ('opt_out' as const) : ('opt_in' as const)
    return { id: formatUuid(uuid), name, description: null, subscription }
  })

/** `app` passes what knows the mail of a stream. */
export interface TopicRouteOptions {
  readonly hasOpenMail: streams.HasOpenMail
}

/** Older topics of an account are not listed. */
const MAX_TOPICS = 1000
const MAX_SLUG_LENGTH = 63
const READS_TOPICS = 'emails:read'
const WRITES_TOPICS = 'emails:send contacts:write'
const NEW_TOPIC = Fields({
  name: TEXT,
  default_subscription: Type.Literal('opt_in', {
    errorMessage:
      'opt_in: here everybody gets the mail of a topic who has not opted out; for another one, make a segment of those who want it',
  }),
})

/** Clients repeat the id. */
const TOPIC_CHANGE = Fields({ id: MAYBE_TEXT, name: MAYBE_TEXT })

export const topicRoutes = ({ hasOpenMail }: TopicRouteOptions) => [
  on('GET /topics', READS_TOPICS, ({ app, accountId, query }) =>
    pageOf(query, listTopics(app, accountId).map(toTopic)),
  ),
  takes('POST /topics', WRITES_TOPICS, NEW_TOPIC, async ({ app, db, actor, accountId, body: { name } }) => {
    const isTaken = (slug: string) => streams.findStreamId(db, accountId, slug) !== undefined
    const slug = createSlug(name, 'topic', MAX_SLUG_LENGTH, isTaken)
    return toReference('topic', await streams.createStream(app, actor, { slug, name }))
  }),
  on('GET /topics/:id', READS_TOPICS, shows('topic', streams.getStream, toTopic)),
  takes('PATCH /topics/:id', WRITES_TOPICS, TOPIC_CHANGE, async ({ app, actor, id, body: { name } }) =>
    toReference('topic', await streams.changeStream(app, actor, id, { name: name ?? undefined })),
  ),
  on(
    'DELETE /topics/:id',
    WRITES_TOPICS,
    deletes('topic', (app, actor, id) => streams.deleteStream(app, actor, id, hasOpenMail)),
  ),
]

/** The stream that a field `topic_id` names. */
export function requireTopic(app: App, accountId: number, id: string): streams.Stream {
  const stream = attempt(() => streams.getStream(app.db, accountId, id))
  if (!stream) throw invalid('topic_id', 'topic_id must be the id of a topic; GET /topics lists them.')
  return stream
}

/** Not the stream of mail that nobody unsubscribes from. */
export const listTopics = (app: App, accountId: number): streams.Stream[] =>
  streams
    .listStreams(app.db, accountId, { limit: MAX_TOPICS, offset: 0 })
    .streams.filter(({ slug }) => slug !== streams.DEFAULT_STREAM)

export const toTopic = (stream: streams.Stream) => ({
  ...toReference('topic', stream),
  name: stream.name,
  default_subscription: 'opt_in' as const,
  created_at: isoTime(stream.createdAt),
})
