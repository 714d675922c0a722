/** @module An import in words: what a column becomes, and how the import stands. */
import type { ImportPreviewRecord } from '#features/audience/contact-lists/import-routes.ts'
import type { OperationRecord } from '#features/core/operations/model.ts'

export function describeColumn({ name, kind }: ImportPreviewRecord['columns'][number]): string {
  switch (kind) {
    case 'email':
      return 'The address'
    case 'status':
      return 'The state of the contact'
    case 'metadata':
      return 'Metadata, as a JSON object'
    case 'passed over':
      return 'Nothing: it is ignored'
    case 'subscribed':
      return 'The state of the contact: yes means active, no unsubscribed'
    case 'confirmed':
      return 'The state of the contact: no means pending'
    case 'unsubscribed':
    case 'bounced':
    case 'complained':
      return `The state of the contact: yes means ${kind}`
    case 'field':
      return `Metadata: contact.${name ?? ''}`
  }
}

/** One sentence. */
export function describeImport(operation: OperationRecord): string {
  const { status, completed_items: completed, failed_items: failed, error_summary: problem } = operation
  if (status === 'pending') return 'The import is about to begin.'
  if (status === 'processing') return 'The import is running. You can leave this page; it continues.'
  if (status === 'failed') return problem?.message ?? 'The import ended early.'
  if (failed === 0) return 'The import is complete.'
  return completed === 0
    ? 'The import is complete, but no line could be imported.'
    : `The import is complete. ${failed === 1 ? 'One line was' : `${failed.toLocaleString()} lines were`} left out.`
}
