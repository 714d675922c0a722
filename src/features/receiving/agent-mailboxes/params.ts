/** @module Path parameters and OpenAPI tag of /v1/agent-mailboxes. */
import { Type } from '@sinclair/typebox'

export const tags = ['Agent mailboxes']

export const MailboxParams = Type.Object({ id: Type.String({ description: 'Id of the mailbox.' }) })

export const MessageParams = Type.Object({
  id: Type.String({ description: 'Id of the mailbox.' }),
  mid: Type.String({ description: 'Id of the message.' }),
})
