/** @module The dialog that creates a contact list or changes its name, purpose and way of joining. */
import type { ContactList, CreateContactListRequest } from '#client/api.ts'
import { api } from '../../api/client.ts'
import { ConfirmDialog } from '../../parts/dialog.tsx'

interface ListDialogProps {
  readonly list?: ContactList
  onSaved?(list: ContactList): unknown
  onClose(): void
}

export const ListDialog = ({ list, onSaved, onClose }: ListDialogProps) => (
  <ConfirmDialog
    title={list ? 'Edit this list' : 'Create a list'}
    confirm={list ? 'Save' : 'Create the list'}
    fields={[
      {
        name: 'name',
        label: 'Name',
        hint: 'Its contacts see it where they confirm and where they unsubscribe.',
        isRequired: true,
      },
      { name: 'description', label: 'Purpose', kind: 'lines', hint: 'Only your team sees it.' },
      {
        name: 'double_opt_in',
        label: 'Ask new contacts to confirm (double opt-in)',
        kind: 'check',
        hint: 'They get an email with a link, and nothing else until they use it.',
      },
    ]}
    initial={list ?? {}}
    refreshes={['contactLists']}
    run={(body: CreateContactListRequest) =>
      list
        ? api.contactLists.update(list.id, { ...body, description: body.description ?? null })
        : api.contactLists.create(body)
    }
    onDone={({ data }) => onSaved?.(data)}
    onClose={onClose}
  />
)
