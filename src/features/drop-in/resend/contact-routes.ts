/**
 * @module Contacts, their segments and topics; segments, also by their former name audiences. A segment is a contact
 * list, a contact an address on any of them, a topic a stream. A contact in no segment is on the list `General`, which
 * is made for it.
 */
import type { Database } from 'bun:sqlite'
import * as audience from '#features/audience/contact-lists/contacts.ts'
import { addSuppression, removeSuppression } from '#features/audience/suppressions/suppressions.ts'
import type { App } from '#features/core/app/app.ts'
import { requireScope } from '#features/setup/api-keys/scopes.ts'
import { changeList, createList, deleteList } from '#features/setup/contact-store/change-list.ts'
import { type Contact, findContact, listContacts } from '#features/setup/contact-store/find.ts'
import * as store from '#features/setup/contact-store/lists.ts'
import * as streams from '#features/setup/streams/streams.ts'
import { EVERY, suppressionOf, UNSUBSCRIBE } from '#features/setup/suppression-store/check.ts'
import { attempt } from '#platform/attempt.ts'
import type { RowWindow } from '#platform/db/row-window.ts'
import { invalid, notFound } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import { isJsonObject, type JsonObject } from '#platform/json-object.ts'
import { pageOf, pageOfRows, readPage } from './list.ts'
import { type Call, createSlug, deletes, on, readFlag, readText, requireText, toReference } from './route.ts'

const READS = 'contacts:read'
const WRITES = 'contacts:write'

const CHANGEABLE = ['first_name', 'last_name', 'unsubscribed', 'properties']
const GENERAL = 'General'
const MAX_NAMED = 100

const listSegmentRoutes = (name: string) => [
  on(`GET /${name}`, READS, (call) =>
    pageOfRows(call, 'contact_lists', store.getList, (...of) => store.listContactLists(...of).lists, toSegment),
  ),
  on(`POST /${name}`, WRITES, async ({ app, actor, read }) => ({
    object: 'segment',
    ...toSegment(await createList(app, actor, { name: requireText(read(['name']), 'name') })),
  })),
  on(`GET /${name}/:id`, READS, ({ db, accountId, id }) => ({
    object: 'segment',
    ...toSegment(store.getList(db, accountId, id)),
  })),
  on(`PATCH /${name}/:id`, WRITES, async ({ app, actor, id, read }) =>
    toReference('segment', await changeList(app, actor, id, { name: requireText(read(['name']), 'name') })),
  ),
  on(`DELETE /${name}/:id`, WRITES, deletes('segment', deleteList)),
  on(`GET /${name}/:id/contacts`, READS, (call) => {
    const { db, accountId, id } = call
    const list = store.getList(db, accountId, id)
    const find = (_: Database, owner: number, contact: string) => findContact(db, owner, toAddress(contact))
    const listBelow = (_: Database, __: number, window: RowWindow) => listContacts(db, list, {}, window).contacts
    return pageOfRows(call, 'contacts', find, listBelow, (contact) => toListed([contact]), list.id)
  }),
  on(`POST /${name}/:id/contacts`, WRITES, (call) =>
    createContact(call, call.read(['email', ...CHANGEABLE]), [store.getList(call.db, call.accountId, call.id)]),
  ),
  on(`GET /${name}/:id/contacts/:part`, READS, (call) => toDetail(requireMember(call, call.id, call.part))),
  on(`PATCH /${name}/:id/contacts/:part`, WRITES, (call) =>
    changeContact(call, requireMember(call, call.id, call.part)),
  ),
  on(`DELETE /${name}/:id/contacts/:part`, WRITES, async (call) => {
    await audience.removeContact(call.app, call.actor, call.id, requireMember(call, call.id, call.part)[0].email)
    return { object: 'contact', contact: call.part, deleted: true }
  }),
]

export const contactRoutes = [
  ...listSegmentRoutes('segments'),
  ...listSegmentRoutes('audiences'),
  on('GET /contacts', READS, (call) => {
    const { db, accountId, query } = call
    const contactsOf = (id: string) => requireContact({ ...call, id })
    const source = {
      find: (id: string) => ({ id: contactsOf(id)[0].addressKey }),
      listBelow: ({ after = [''], limit }: RowWindow) =>
        audience.listAddresses(db, accountId, 'after', String(after[0]), limit),
      listAbove: ({ id }: { id: string }, limit: number) => audience.listAddresses(db, accountId, 'before', id, limit),
    }
    return readPage(query, source, ({ id }) => toListed(contactsOf(id)))
  }),
  on('POST /contacts', WRITES, (call) => {
    const wanted = call.read(['email', ...CHANGEABLE, 'segments', 'topics'])
    const segments = readItems(wanted['segments'] ?? [], 'segments').map((segment) =>
      store.getList(call.db, call.accountId, requireText(segment, 'id')),
    )
    return createContact(call, wanted, segments)
  }),
  on('GET /contacts/:id', READS, (call) => toDetail(requireContact(call))),
  on('PATCH /contacts/:id', WRITES, (call) => changeContact(call, requireContact(call))),
  on('DELETE /contacts/:id', WRITES, async (call) => {
    await audience.removeAddress(call.app, call.actor, requireContact(call)[0].email)
    return { object: 'contact', contact: call.id, deleted: true }
  }),
  on('GET /contacts/:id/segments', READS, (call) => {
    const lists = requireContact(call).flatMap(({ listId }) => store.findListById(call.db, listId) ?? [])
    return pageOf(call.query, lists.map(toSegment))
  }),
  on('POST /contacts/:id/segments/:part', WRITES, async (call) => {
    const segment = store.getList(call.db, call.accountId, call.part)
    await audience.changeAddress(call.app, call.actor, requireContact(call)[0].email, [segment])
    return { id: formatUuid(segment.uuid) }
  }),
  on('DELETE /contacts/:id/segments/:part', WRITES, leaveSegment),
  on('GET /contacts/:id/topics', READS, (call) => pageOf(call.query, toTopics(call, requireContact(call)[0].email))),
  on('PATCH /contacts/:id/topics', WRITES, async (call) => {
    const contacts = requireContact(call)
    await subscribe(call, contacts[0].email, readTopics(call, call.body))
    return { id: toId(contacts) }
  }),
]

/** The contacts of an address on their lists. */
type Contacts = readonly [Contact, ...Contact[]]

/**
 * Adds an address to segments. Programs say `unsubscribed: false` and `opt_in` of everybody whom they add; that does not
 * bring back who has left.
 */
async function createContact(call: Call, wanted: JsonObject, segments: readonly store.ContactList[]) {
  const { app, actor, db, accountId } = call
  const { email } = audience.checkContact({ email: requireText(wanted, 'email') })
  const metadata = readMetadata(wanted)
  const topics = readTopics(call, wanted['topics'] ?? [])
  const everything = readFlag(wanted, 'unsubscribed') ? [[EVERY, true] as const] : []
  const isHomeless = segments.length === 0 && audience.findContactsOf(db, accountId, email).length === 0
  // First, so that who is added as unsubscribed gets no welcome.
  await subscribe(
    call,
    email,
    [...topics, ...everything].filter(([, isOff]) => isOff),
  )
  await audience.changeAddress(app, actor, email, isHomeless ? [await requireGeneral(call)] : segments, metadata)
  return { object: 'contact', id: toId(requireContact({ ...call, id: email })) }
}

async function changeContact(call: Call, contacts: Contacts) {
  const { app, actor, read } = call
  const wanted = read(CHANGEABLE)
  const isUnsubscribed = readFlag(wanted, 'unsubscribed')
  const metadata = readMetadata(wanted)
  await subscribe(call, contacts[0].email, isUnsubscribed === undefined ? [] : [[EVERY, isUnsubscribed]])
  await audience.changeAddress(app, actor, contacts[0].email, [], metadata)
  return { object: 'contact', id: toId(contacts) }
}

type Subscriptions = readonly (readonly [streamId: number, isUnsubscribed: boolean])[]

/** Stops mail with `transactional: false`, or lets it through again. Bounces and complaints stay. */
async function subscribe({ app, actor }: Call, address: string, subscriptions: Subscriptions): Promise<void> {
  if (subscriptions.length > 0) requireScope(actor, 'suppressions:write', 'to subscribe or unsubscribe a contact')
  for (const [streamId, isOff] of subscriptions)
    await (isOff
      ? addSuppression(app, actor, { address, reason: UNSUBSCRIBE, streamId })
      : removeSuppression(app, actor, address, UNSUBSCRIBE, streamId))
}

const requireGeneral = async ({ app, actor, db, accountId }: Call): Promise<store.ContactList> =>
  store.findListByName(db, accountId, GENERAL) ?? (await createList(app, actor, { name: GENERAL }))

/** A contact that leaves its last segment stays a contact. */
async function leaveSegment(call: Call) {
  const { app, actor, id, part } = call
  const contacts = requireContact(call)
  const [{ email, listId }] = requireMember(call, part, id)
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
function readMetadata(wanted: JsonObject): JsonObject {
  const properties = wanted['properties'] ?? {}
  const isProperty = ([key, value]: [string, unknown]) =>
    /^[A-Za-z_]\w{0,49}$/.test(key) && (value === null || typeof value !== 'object')
  if (!isJsonObject(properties) || !Object.entries(properties).every(isProperty))
    throw invalid(
      'properties',
      'properties must be an object with names of up to 50 letters, digits and "_", and texts, numbers or null.',
    )
  const names = ['first_name', 'last_name'].filter((name) => wanted[name] !== undefined)
  return { ...properties, ...Object.fromEntries(names.map((name) => [name, readText(wanted, name) || null])) }
}

function readItems(value: unknown, field: string): JsonObject[] {
  if (!Array.isArray(value) || value.length > MAX_NAMED || !value.every(isJsonObject))
    throw invalid(field, `${field} must be an array of at most ${MAX_NAMED} objects.`)
  return value
}

const readTopics = ({ app, accountId }: Call, value: unknown): Subscriptions =>
  readItems(value, 'topics').map((topic) => {
    const subscription = requireText(topic, 'subscription')
    if (subscription !== 'opt_in' && subscription !== 'opt_out')
      throw invalid('subscription', 'subscription must be opt_in or opt_out.')
    return [requireTopic(app, accountId, requireText(topic, 'id')).id, subscription === 'opt_out']
  })

/** The id of a contact is its address in base64url: it stays the same whatever lists the contact joins and leaves. */
const toId = ([{ addressKey }]: Contacts): string => Buffer.from(addressKey).toString('base64url')

const toAddress = (id: string): string => (id.includes('@') ? id : Buffer.from(id, 'base64url').toString())

function requireContact({ db, accountId, id }: Call): Contacts {
  const [first, ...others] = audience.findContactsOf(db, accountId, toAddress(id))
  if (!first) throw notFound('contact_not_found', 'Contact not found; name it by its id or its address.')
  return [first, ...others]
}

function requireMember({ db, accountId }: Call, segment: string, contact: string): Contacts {
  const found = findContact(db, store.getList(db, accountId, segment).id, toAddress(contact))
  if (!found) throw notFound('contact_not_found', 'The segment has no such contact.')
  return [found]
}

export const toSegment = ({ uuid, name, createdAt }: store.ContactList) => ({
  id: formatUuid(uuid),
  name,
  created_at: isoTime(createdAt),
})

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

export const topicRoutes = ({ hasOpenMail }: TopicRouteOptions) => [
  on('GET /topics', READS_TOPICS, ({ app, accountId, query }) =>
    pageOf(query, listTopics(app, accountId).map(toTopic)),
  ),
  on('POST /topics', WRITES_TOPICS, async ({ app, db, actor, accountId, read }) => {
    const wanted = read(['name', 'default_subscription'])
    const name = requireText(wanted, 'name')
    if (requireText(wanted, 'default_subscription') !== 'opt_in')
      throw invalid(
        'default_subscription',
        'default_subscription must be opt_in: here everybody gets the mail of a topic who has not opted out; for another one, make a segment of those who want it.',
      )
    const isTaken = (slug: string) => streams.findStreamId(db, accountId, slug) !== undefined
    const slug = createSlug(name, 'topic', MAX_SLUG_LENGTH, isTaken)
    return toReference('topic', await streams.createStream(app, actor, { slug, name }))
  }),
  on('GET /topics/:id', READS_TOPICS, ({ db, accountId, id }) => toTopic(streams.getStream(db, accountId, id))),
  on('PATCH /topics/:id', WRITES_TOPICS, async ({ app, actor, id, read }) =>
    toReference('topic', await streams.changeStream(app, actor, id, { name: readText(read(['id', 'name']), 'name') })),
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
