/** @module One contact list: its contacts, and what can be done with it. */
import { Alert, Button, Group, Stack, Text } from '@mantine/core'
import { getRouteApi, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import type { AddContactsRequest, Contact, ContactList } from '#client/api.ts'
import { api, read } from '../api/client.ts'
import { useData } from '../api/data.ts'
import { ActionButton, SmallAction } from '../parts/buttons.tsx'
import { toCurl } from '../parts/commands.ts'
import { ConfirmDialog, DeleteButton } from '../parts/dialog.tsx'
import { formatCount } from '../parts/format.ts'
import { TextLink } from '../parts/links.tsx'
import { ListView, useList } from '../parts/list.tsx'
import { EmptyState, Facts, RecordPage } from '../parts/page.tsx'
import type { Column } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import { CONTACT_STATES, type ContactStatus } from './audience/contact-search.ts'
import { ListDialog } from './audience/list-form.tsx'
import { ContactStatusLabel, MetadataLine } from './audience/parts.tsx'
import { CONTACT_FILTERS } from './filters.ts'

const route = getRouteApi('/audience/lists/$id')

const REFRESH_MS = 3000

type Dialog = 'add' | 'edit'

export default function AudienceListScreen() {
  const { id } = route.useParams()
  const query = useData(read.contactLists.get(id))
  const navigate = useNavigate()
  const [dialog, setDialog] = useState<Dialog>()
  // What one adds oneself is shown without being asked for.
  const [revision, setRevision] = useState(0)
  const close = () => setDialog(undefined)
  return (
    <RecordPage
      title={query.data?.name ?? 'List'}
      action={
        query.data && (
          <ActionButton needs="developer" onClick={() => setDialog('add')}>
            Add a contact
          </ActionButton>
        )
      }
      list={{ to: '/audience' }}
      listName="All lists"
      query={query}
      missing="This account has no list with this id. It may have been deleted, or belong to another account."
    >
      {(list) => (
        <Stack gap="lg">
          <ListFacts list={list} />
          <Group gap="xs">
            <SmallAction
              needs="developer"
              onClick={() => void navigate({ to: '/audience/lists/$id/import', params: { id } })}
            >
              Import a CSV file
            </SmallAction>
            <Button size="xs" variant="default" component="a" href={read.contactLists.exportContacts(id).url} download>
              Export as CSV
            </Button>
            <SmallAction needs="developer" onClick={() => setDialog('edit')}>
              Edit the list
            </SmallAction>
            <DeleteButton
              label="Delete the list"
              size="xs"
              title="Delete this list?"
              confirm="Delete the list"
              typed={list.name}
              remove={() => api.contactLists.delete(id)}
              refreshes={[['contactLists', 'list'], 'signupForms']}
              leadsTo={{ to: '/audience' }}
            >
              <Text>
                {formatCount(list.contact_count, 'contact')} and the sign-up form of the list are deleted. People who
                left it stay on the suppression list. This cannot be undone.
              </Text>
            </DeleteButton>
          </Group>
          <OpenImports listId={id} />
          <Contacts key={revision} contactList={list} onAdd={() => setDialog('add')} />
          {dialog === 'add' && (
            <AddContactDialog
              list={list}
              onClose={() => {
                close()
                setRevision(revision + 1)
              }}
            />
          )}
          {dialog === 'edit' && <ListDialog list={list} onClose={close} />}
        </Stack>
      )}
    </RecordPage>
  )
}

const ListFacts = ({ list }: { readonly list: ContactList }) => (
  <Facts
    facts={[
      ['Contacts', list.contact_count.toLocaleString()],
      ['Purpose', list.description],
      ['New contacts', list.double_opt_in ? 'Are asked by email to confirm' : 'Are added directly'],
      ['Welcome email', list.welcome_email_enabled && `On: ${list.welcome_email_subject ?? 'from a template'}`],
      ['Created', <Time key="created" iso={list.created_at} />],
      ['Id', list.id],
    ]}
  />
)

/** Imports that have not ended, so that whoever left their screen finds them again. */
function OpenImports({ listId }: { readonly listId: string }) {
  const { data = [] } = useData(read.contactLists.listImports(listId), {
    refetchInterval: ({ state: { data: running } }) => (running?.data.length ? REFRESH_MS : false),
  })
  if (data.length === 0) return null
  return (
    <Alert color="blue" title="An import is running">
      {data.map(({ id, completed_items: done, failed_items: failed, total_items: total }) => (
        <Text key={id} size="sm">
          {(done + failed).toLocaleString()} of {formatCount(total, 'line')}{' '}
          <TextLink
            to="/audience/lists/$id/import"
            params={{ id: listId }}
            search={{ operation: id }}
            underline="always"
          >
            Show it
          </TextLink>
        </Text>
      ))}
    </Alert>
  )
}

interface ContactsProps {
  readonly contactList: ContactList
  onAdd(): void
}

function Contacts({ contactList: { id }, onAdd }: ContactsProps) {
  const list = useList({
    read: (query) => read.contactLists.listContacts(id, query),
    filters: CONTACT_FILTERS,
    isSteady: true,
    isCapped: ({ starts_with: text }) => text !== undefined,
  })
  const body = { email: 'bob@example.com', metadata: { first_name: 'Bob' } }
  return (
    <ListView
      list={list}
      label="Contacts"
      columns={toColumns(id)}
      noun="contact"
      empty={
        <EmptyState
          title="The contacts of this list will appear here"
          text="Add one here, import a CSV file, let people subscribe with a sign-up form, or add them from your program with one of your API keys:"
          command={toCurl(`/v1/contact-lists/${id}/contacts`, body)}
        >
          <ActionButton needs="developer" onClick={onAdd}>
            Add a contact
          </ActionButton>
        </EmptyState>
      }
      advice="The search finds addresses that begin with the text, such as bob or bob@example.com."
    />
  )
}

const toColumns = (listId: string): readonly Column<Contact>[] => [
  {
    header: 'Address',
    width: '34%',
    cell: ({ email }) => (
      <TextLink to="/audience/lists/$id/contacts/$email" params={{ id: listId, email }}>
        <bdi>{email}</bdi>
      </TextLink>
    ),
  },
  { header: 'State', width: '22%', cell: ({ status }) => <ContactStatusLabel status={status} /> },
  {
    header: 'Metadata',
    cell: ({ metadata }) => <MetadataLine metadata={metadata} />,
  },
  { header: 'Added', width: '16%', cell: ({ created_at: at }) => <Time iso={at} /> },
]

const GETS_MAIL: readonly ContactStatus[] = ['active', 'pending']

/** Stays open for the next one, which has everything but the address of the last. */
function AddContactDialog({ list, onClose }: { readonly list: ContactList; onClose(): void }) {
  const [added, setAdded] = useState<Contact>()
  const [last, setLast] = useState<Omit<AddContactsRequest, 'email'>>({})
  return (
    <ConfirmDialog
      title="Add a contact"
      confirm="Add"
      fields={[
        { name: 'email', label: 'Address', kind: 'email', isRequired: true },
        {
          name: 'metadata',
          label: 'Metadata',
          kind: 'json',
          hint: 'A JSON object that templates read as contact, such as {"first_name": "Ada"}.',
          rows: [3, 12],
        },
        ...(list.double_opt_in
          ? [
              {
                name: 'confirmed',
                label: 'They have agreed already: send no confirmation request',
                kind: 'check',
              } as const,
            ]
          : []),
      ]}
      refreshes={['contactLists']}
      initial={last}
      run={({ email, ...rest }: AddContactsRequest) => {
        setLast(rest)
        return api.contactLists.addContacts(list.id, { email, ...rest })
      }}
      staysOpen
      onDone={({ data }) => setAdded(data as Contact)}
      onClose={onClose}
    >
      <div role="status">
        {added && (
          <Alert color={GETS_MAIL.includes(added.status) ? 'green' : 'yellow'} title={`${added.email} was added`}>
            {CONTACT_STATES[added.status].word}. {CONTACT_STATES[added.status].meaning}
          </Alert>
        )}
      </div>
    </ConfirmDialog>
  )
}
