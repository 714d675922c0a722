/** @module Queries and changes of contact lists, contacts, imports and signup forms. */
import { useMutation, useQueryClient } from '@tanstack/react-query'
import type {
  ContactListRecord,
  ContactListRow,
  ContactRecord,
  ImportPreviewRecord,
} from '#features/audience/contact-lists/model.ts'
import type { FormRecord } from '#features/audience/signup-forms/model.ts'
import type { OperationRecord } from '#features/core/operations/model.ts'
import { ApiError, type QueryValues, request, requestData } from './client.ts'
import { useAll, useChange, usePage, useRecord, useStore } from './data.ts'

const POLL_MS = 1000

export const toListPath = (id: string, rest = ''): string => `/v1/contact-lists/${encodeURIComponent(id)}${rest}`
export const toContactPath = (listId: string, email: string): string =>
  toListPath(listId, `/contacts/${encodeURIComponent(email)}`)
export const toFormPath = (id: string, rest = ''): string => `/v1/signup-forms/${encodeURIComponent(id)}${rest}`

export const useContactLists = (page: number) =>
  usePage<ContactListRow>(['lists', 'page'], '/v1/contact-lists', { page })

/** All lists, to choose one. */
export const useAllLists = () => useAll<ContactListRow>(['lists', 'all'], '/v1/contact-lists')

export const useContactList = (id: string) => useRecord<ContactListRecord>(['lists', 'one', id], toListPath(id))

export interface ListFields {
  readonly name: string
  readonly description: string | null
  readonly double_opt_in: boolean
}

/** @param id the list to change; undefined creates one */
export const useSaveList = (id: string | undefined) =>
  useChange(
    (body: ListFields) =>
      id === undefined
        ? requestData<ContactListRecord>('POST', '/v1/contact-lists', { body })
        : requestData<ContactListRecord>('PUT', toListPath(id), { body }),
    ['lists'],
  )

export const useContacts = (listId: string, query: QueryValues) =>
  usePage<ContactRecord>(['contacts', listId], toListPath(listId, '/contacts'), query)

export const useContact = (listId: string, email: string) =>
  useRecord<ContactRecord>(['contact', listId, email], toContactPath(listId, email))

/** A change of the contacts of a list; what shows them is read again afterwards. */
export function useContactChange<Input, Result>(listId: string, change: (input: Input) => Promise<Result>) {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: change,
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: ['lists'] })
      // What another screen would show of before the change is not shown at all.
      queries.removeQueries({ queryKey: ['contacts', listId], type: 'inactive' })
      void queries.invalidateQueries({ queryKey: ['contacts', listId] })
      void queries.invalidateQueries({ queryKey: ['contact', listId] })
    },
  })
}

/** What an operation of the type bulk_import has in its metadata. */
export interface ImportDetails {
  readonly list_id: string
  readonly inserted: number
  readonly duplicates: number
  readonly errors: readonly { readonly line: number; readonly error: string }[]
}

export const toImportDetails = ({ metadata }: OperationRecord): ImportDetails => metadata as ImportDetails

export const hasEnded = ({ status }: OperationRecord): boolean => status === 'completed' || status === 'failed'

/** Read again every second until it has ended. */
export const useOperation = (id: string) =>
  useRecord<OperationRecord>(['operation', id], `/v1/operations/${encodeURIComponent(id)}`, {
    refetchInterval: ({ state }) => (state.data && hasEnded(state.data) ? false : POLL_MS),
  })

export const useOpenImports = (listId: string) =>
  useRecord<OperationRecord[]>(['imports', listId], toListPath(listId, '/imports'), {
    refetchInterval: ({ state }) => (state.data?.length ? POLL_MS * 3 : false),
  })

/** The server reads no more of a file for a preview. */
const PREVIEW_BYTES = 256 * 1024

export const usePreviewImport = (listId: string) =>
  useMutation({
    mutationFn: async ({ file, columns }: { readonly file: File; readonly columns: string }) => {
      const isPartial = file.size > PREVIEW_BYTES
      const body = new Blob([file.slice(0, PREVIEW_BYTES)], { type: 'text/csv' })
      const query = { columns, ...(isPartial && { partial: true }) }
      const path = toListPath(listId, '/contacts/import/preview')
      const { data } = await request<{ data: ImportPreviewRecord }>('POST', path, { body, query })
      return { ...data, isPartial }
    },
  })

const FILE_CHANGED = {
  code: 'file_changed',
  message: 'The file has changed since it was checked; choose it again.',
}

/** A browser reads a chosen file no more once it changed on the disk; then a request fails as if without a connection. */
const isReadable = (file: File): Promise<boolean> =>
  file
    .slice(0, 1)
    .arrayBuffer()
    .then(
      () => true,
      () => false,
    )

export function useStartImport(listId: string) {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: async (input: {
      readonly file: File
      readonly isConfirmed: boolean
      readonly columns: string
      readonly signal: AbortSignal
    }) => {
      const { file, isConfirmed, columns, signal } = input
      const sent = request<{ data: { operation_id: string } }>('POST', toListPath(listId, '/contacts/import'), {
        body: new Blob([file], { type: 'text/csv' }),
        query: { confirmed: isConfirmed, columns },
        signal,
      })
      const { data } = await sent.catch(async (error: unknown) => {
        throw (await isReadable(file)) ? error : new ApiError(0, FILE_CHANGED)
      })
      return data.operation_id
    },
    onSuccess: () => queries.invalidateQueries({ queryKey: ['imports', listId] }),
  })
}

export const useCancelImport = (listId: string, operationId: string) =>
  useChange(
    () => request('POST', toListPath(listId, `/imports/${encodeURIComponent(operationId)}/cancel`)),
    ['operation', operationId],
  )

export const FORMS_KEY = ['forms', 'page']
export const formKey = (id: string) => ['forms', 'one', id]

export const useForms = (page: number) => usePage<FormRecord>(FORMS_KEY, '/v1/signup-forms', { page })

export const useForm = (id: string) => useRecord<FormRecord>(formKey(id), toFormPath(id))

/** A change of a signup form. */
const useFormChange = <Input>(change: (input: Input) => Promise<FormRecord>) =>
  useStore(change, ({ id }) => formKey(id), FORMS_KEY)

export const useCreateForm = () =>
  useFormChange((body: { readonly list_id: string; readonly title: string }) =>
    requestData('POST', '/v1/signup-forms', { body }),
  )

export const useChangeForm = (id: string) =>
  useFormChange((body: Readonly<Record<string, unknown>>) => requestData('PUT', toFormPath(id), { body }))

export const useToggleForm = (id: string) =>
  useFormChange((_: undefined) => requestData('POST', toFormPath(id, '/toggle')))
