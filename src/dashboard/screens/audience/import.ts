/** @module Sends a CSV file with contacts: its beginning to be checked, and the whole to be imported. */
import type { Operation } from '#client/api.ts'
import { api } from '../../api/client.ts'
import { useChange } from '../../api/data.ts'

/** What an operation of the type bulk_import has in its metadata. */
export interface ImportDetails {
  readonly list_id: string
  readonly inserted: number
  readonly duplicates: number
  readonly errors: readonly { readonly line: number; readonly error: string }[]
}

export const toImportDetails = ({ metadata }: Operation): ImportDetails => metadata as ImportDetails

interface ChosenFile {
  readonly file: File
  /** What its columns mean, as JSON; empty: as the service thinks. */
  readonly columns: string
}

/** The server reads no more of a file for a preview. */
const PREVIEW_BYTES = 256 * 1024

export const usePreviewImport = (listId: string) =>
  useChange(async ({ file, columns }: ChosenFile) => {
    const isPartial = file.size > PREVIEW_BYTES
    const body = new Blob([file.slice(0, PREVIEW_BYTES)], { type: 'text/csv' })
    const query = { columns: columns || undefined, ...(isPartial && { partial: 'true' as const }) }
    const { data } = await api.contactLists.previewImport(listId, body, { query })
    return { ...data, isPartial }
  })

interface Upload extends ChosenFile {
  readonly isConfirmed: boolean
}

/** Resolves with the id of the operation. */
export const useStartImport = (listId: string) =>
  useChange(
    async ({ file, isConfirmed, columns }: Upload) => {
      const body = new Blob([file], { type: 'text/csv' })
      const query = { confirmed: isConfirmed ? ('true' as const) : ('false' as const), columns: columns || undefined }
      const { data } = await api.contactLists.importContacts(listId, body, { query })
      return data.operation_id
    },
    ['contactLists', 'listImports', listId],
  )
