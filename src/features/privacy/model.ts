/** @module Wire shapes of what one person may ask of an account, by address: to be told, and to be forgotten. */
import { Type } from '@sinclair/typebox'
import { Uuid } from '#platform/http/schemas.ts'

export const PersonQuery = Type.Object({
  email: Type.Optional(Type.String({ description: 'The address of the person, URL-encoded, in any spelling.' })),
})

export const ErasureResult = Type.Object({
  data: Type.Object({
    email_address: Type.String({ description: 'The address, in lower case; its domain in A-labels.' }),
    rows_deleted: Type.Integer({
      description: 'Rows that were removed or emptied so far; the operation has the number in the end.',
    }),
    message: Type.String({ description: 'How far it is, for a person.' }),
  }),
  operation_id: Uuid({ description: 'Operation that erases; `GET /v1/operations/{id}` tells when it is complete.' }),
})
