/** @module The attachments behind links that need no key: the link itself is the permission. */
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { downloadStored } from '#features/core/app/stored-content.ts'
import { createExpiredError, createFileLink, openFileLink } from '#features/receiving/received/file-links.ts'
import { getAttachment, toAttachmentWire } from '#features/receiving/received/parts.ts'
import type { Mailbox } from './mailboxes.ts'
import { findMessageOfAccount, type MailboxMessage } from './messages.ts'

const FILES_PATH = '/mailbox-files'

export const mailboxFileRoutes = (app: App) =>
  new Elysia().get(
    FILES_PATH,
    ({ query, request }) => {
      const { kind, accountId, uuid, index } = openFileLink(app, query['token'] ?? '')
      const message = kind === 'mailbox' ? findMessageOfAccount(app.db, accountId, uuid) : undefined
      if (!message) throw createExpiredError()
      return downloadStored(app, request, getAttachment(message.attachments, String(index)))
    },
    { detail: { hide: true } },
  )

/** Attachments of a message with their links, from position `offset`. */
export const toLinkedAttachments = (
  app: App,
  mailbox: Pick<Mailbox, 'accountId'>,
  { uuid, attachments }: Pick<MailboxMessage, 'uuid' | 'attachments'>,
  { offset, limit }: { readonly offset: number; readonly limit: number },
) =>
  attachments.slice(offset, offset + limit).map((attachment, position) => {
    const { accountId } = mailbox
    const link = createFileLink(app, FILES_PATH, { kind: 'mailbox', accountId, uuid, index: offset + position })
    return {
      ...toAttachmentWire(attachment),
      url: link.url,
      expires_in_seconds: Math.floor((link.expiresAt - app.clock.now()) / 1000),
    }
  })
