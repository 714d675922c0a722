/** @module /v1/agent-mailboxes: all routes of it, and those of mailboxes, threads, contacts and figures. Paths, shapes and one call each. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { idKey, list, one, timeKey } from '#platform/http/envelope.ts'
import { refuses } from '#platform/http/refusals.ts'
import { ListOf, One, requireReachable } from '#platform/http/schemas.ts'
import { SliceQuery, sliceOf } from '#platform/http/slices.ts'
import { consumerRoutes } from './consumer-routes.ts'
import { listContacts } from './contacts.ts'
import { createMailbox, deleteMailbox, getMailbox, listMailboxes } from './mailboxes.ts'
import { messageRoutes } from './message-routes.ts'
import { analyticsOf, messagesOfThread } from './messages.ts'
import {
  AnalyticsRecord,
  analyticsWire,
  ContactRecord,
  contactWire,
  MailboxRecord,
  mailboxWire,
  NewMailbox,
  ThreadDetail,
  ThreadRecord,
  threadMessagesWire,
  threadWire,
} from './model.ts'
import { ofMailbox, tags } from './params.ts'
import { getThread, listThreads } from './threads.ts'
import type { WaitingRooms } from './waiting.ts'

const ofThread = Type.Object({
  id: Type.String({ description: 'Id of the mailbox.' }),
  tid: Type.String({ description: 'Id of the thread.' }),
})

export const agentMailboxRoutes = (app: App, rooms: WaitingRooms) =>
  new Elysia({ prefix: '/v1/agent-mailboxes' })
    .use(mailboxRoutes(app))
    .use(consumerRoutes(app, rooms))
    .use(messageRoutes(app))
    .use(insightRoutes(app))

const mailboxRoutes = (app: App) =>
  new Elysia()
    .use(authenticated)
    .get(
      '/',
      ({ actor, query }) => {
        const slice = sliceOf(query)
        const { mailboxes, total } = listMailboxes(app.db, actor.accountId, slice)
        return list(mailboxes.map(mailboxWire), { ...slice, total }, idKey(mailboxes))
      },
      {
        query: SliceQuery,
        response: ListOf(MailboxRecord),
        detail: { summary: 'List agent mailboxes', description: 'Newest first.', tags, ...requires('mailboxes:read') },
      },
    )
    .post(
      '/',
      async ({ actor, body, status }) => status(201, one(mailboxWire(await createMailbox(app, actor, body)))),
      {
        body: NewMailbox,
        response: { 201: One(MailboxRecord) },
        detail: {
          summary: 'Create an agent mailbox',
          description:
            'An address of a verified domain that receives mail. When the domain is deleted the mailbox receives nothing more, but stays readable; registering the domain again does not connect them.',
          tags,
          ...refuses({ 409: ['mailbox_exists', 'The address has a mailbox, or the account has too many.'] }),
          ...requires('mailboxes:write'),
        },
      },
    )
    .get('/:id', ({ actor, params }) => one(mailboxWire(getMailbox(app.db, actor.accountId, params.id))), {
      params: ofMailbox,
      response: One(MailboxRecord),
      detail: { summary: 'Get an agent mailbox', tags, ...requires('mailboxes:read') },
    })
    .delete(
      '/:id',
      async ({ actor, params, set }) => {
        await deleteMailbox(app, actor, params.id)
        set.status = 204
      },
      {
        params: ofMailbox,
        detail: {
          summary: 'Delete an agent mailbox',
          description:
            'With everything in it, at once. Mail to its address is from then on treated like that to any other address of the domain.',
          tags,
          ...requires('mailboxes:write'),
        },
      },
    )

const insightRoutes = (app: App) =>
  new Elysia()
    .use(authenticated)
    .get(
      '/:id/threads',
      ({ actor, params, query }) => {
        const mailbox = getMailbox(app.db, actor.accountId, params.id)
        const slice = sliceOf(query)
        const { threads, total } = listThreads(app.db, mailbox, slice)
        return list(
          threads.map((thread) => threadWire(thread, mailbox)),
          { ...slice, total },
          timeKey(threads, ({ lastMessageAt }) => lastMessageAt),
        )
      },
      {
        params: ofMailbox,
        query: SliceQuery,
        response: ListOf(ThreadRecord),
        detail: {
          summary: 'List the threads of a mailbox',
          description: 'The one with the newest message first. Messages are joined by In-Reply-To and References.',
          tags,
          ...requires('mailboxes:read'),
        },
      },
    )
    .get(
      '/:id/threads/:tid',
      async ({ actor, params, query }) => {
        const mailbox = getMailbox(app.db, actor.accountId, params.id)
        const thread = getThread(app.db, mailbox, params.tid)
        const slice = sliceOf(query)
        requireReachable(slice, thread.messageCount)
        const messages = messagesOfThread(app.db, thread, slice)
        return one({
          ...threadWire(thread, mailbox),
          messages: await threadMessagesWire(app, messages, mailbox),
        })
      },
      {
        params: ofThread,
        query: SliceQuery,
        response: One(ThreadDetail),
        detail: {
          summary: 'Get a thread',
          description: 'With its messages, oldest first: what came in and what was answered.',
          tags,
          ...requires('mailboxes:read'),
        },
      },
    )
    .get(
      '/:id/contacts',
      ({ actor, params, query }) => {
        const mailbox = getMailbox(app.db, actor.accountId, params.id)
        const slice = sliceOf(query)
        const { contacts, total } = listContacts(app.db, mailbox, slice)
        const last = contacts.at(-1)
        return list(contacts.map(contactWire), { ...slice, total }, last && [last.lastMessageAt, last.address])
      },
      {
        params: ofMailbox,
        query: SliceQuery,
        response: ListOf(ContactRecord),
        detail: {
          summary: 'List who has written to a mailbox',
          description: 'Who wrote last first.',
          tags,
          ...requires('mailboxes:read'),
        },
      },
    )
    .get(
      '/:id/analytics',
      ({ actor, params }) =>
        one(analyticsWire(analyticsOf(app, app.db, getMailbox(app.db, actor.accountId, params.id)))),
      {
        params: ofMailbox,
        response: One(AnalyticsRecord),
        detail: { summary: 'Count what a mailbox has received', tags, ...requires('mailboxes:read') },
      },
    )
