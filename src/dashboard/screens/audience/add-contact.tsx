/** @module The dialog that adds a contact to a list. */
import { Alert, Checkbox, Textarea, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { AddContactsRequest, Contact, ContactList } from '#client/api.ts'
import { TassisError } from '#client/client.ts'
import { api } from '../../api/client.ts'
import { bindChecked, CODE_INPUT, DialogFrame, useFields } from '../../parts/form.tsx'
import { CONTACT_STATES, type ContactStatus, parseMetadataText } from './contact-search.ts'
import { useContactChange } from './queries.ts'

const GETS_MAIL: readonly ContactStatus[] = ['active', 'pending']

export function AddContactDialog({ list, onClose }: { readonly list: ContactList; onClose(): void }) {
  const [problem, setProblem] = useState<string>()
  const [isConfirmed, setIsConfirmed] = useState(false)
  const [added, setAdded] = useState<Contact>()
  const add = useContactChange((body: AddContactsRequest) => api.contactLists.addContacts(list.id, body))
  const { error } = add
  const { values, set, field, fields } = useFields({ email: '', metadata: '' }, error)
  const email = values.email.trim()
  const takenError = error instanceof TassisError && error.code === 'contact_exists' ? error.message : undefined
  const submit = () => {
    const parsed = parseMetadataText(values.metadata)
    setProblem('problem' in parsed ? parsed.problem : undefined)
    if ('problem' in parsed) return
    setAdded(undefined)
    add.mutate(
      { email, metadata: parsed.metadata, ...(list.double_opt_in && { confirmed: isConfirmed }) },
      {
        // Stays open for the next one.
        onSuccess: ({ data }) => {
          setAdded(data as Contact)
          set({ email: '' })
        },
      },
    )
  }
  return (
    <DialogFrame
      title="Add a contact"
      confirm="Add"
      work={{ isPending: add.isPending, error: takenError === undefined && problem === undefined ? error : undefined }}
      fields={fields}
      isIncomplete={email === ''}
      onConfirm={submit}
      onClose={onClose}
    >
      <div role="status">
        {added && (
          <Alert color={GETS_MAIL.includes(added.status) ? 'green' : 'yellow'} title={`${added.email} was added`}>
            {CONTACT_STATES[added.status].word}. {CONTACT_STATES[added.status].meaning}
          </Alert>
        )}
      </div>
      <TextInput
        {...field('email')}
        error={takenError ?? field('email').error}
        label="Address"
        inputMode="email"
        required
        {...CODE_INPUT}
        data-autofocus
      />
      <Textarea
        {...field('metadata')}
        error={problem ?? field('metadata').error}
        label="Metadata"
        description='A JSON object that templates read as contact, such as {"first_name": "Ada"}.'
        autosize
        minRows={3}
        maxRows={12}
        spellCheck={false}
        styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)' } }}
      />
      {list.double_opt_in && (
        <Checkbox
          label="They have agreed already: send no confirmation request"
          {...bindChecked(isConfirmed, setIsConfirmed)}
        />
      )}
    </DialogFrame>
  )
}
