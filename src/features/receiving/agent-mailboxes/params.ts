/** @module What the paths of /v1/agent-mailboxes name, and the heading of their routes in the API description. */
import { Type } from '@sinclair/typebox'

export const tags = ['Agent mailboxes']

export const MailboxParams = Type.Object({ id: Type.String({ description: 'Id of the mailbox.' }) })

export const MessageParams = Type.Object({
  id: Type.String({ description: 'Id of the mailbox.' }),
  mid: Type.String({ description: 'Id of the message.' }),
})
