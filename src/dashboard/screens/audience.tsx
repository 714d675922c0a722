/** @module The contact lists of the account; and one of them: its contacts, and what can be done with it. */
import { getRouteApi, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import type {
  AddContactsRequest,
  Contact,
  ContactList,
  ContactListSummary,
  CreateContactListRequest,
} from '#client/api.ts'
import { api, read } from '../api/client.ts'
import { useData } from '../api/data.ts'
import { download } from '../api/download.ts'
import { ActionButton } from '../parts/buttons.tsx'
import { toCurl } from '../parts/commands.ts'
import { CopyText } from '../parts/copy.tsx'
import { ConfirmDialog, DeleteButton, DialogButton } from '../parts/dialog.tsx'
import { formatCount } from '../parts/format.ts'
import { InlineLink, NameLink } from '../parts/links.tsx'
import { ActionLink, ListScreen, ListView, useList } from '../parts/list.tsx'
import { EmptyState, Facts, RecordPage, Section } from '../parts/page.tsx'
import { Menu } from '../parts/popover.tsx'
import { Notice, StateLabel } from '../parts/status.tsx'
import { type Column, column } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import { AudienceNavigation, MetadataLine } from './audience/parts.tsx'
import { CONTACT_FILTERS, CONTACT_STATES, type ContactStatus } from './filters.ts'

const COLUMNS: readonly Column<ContactListSummary>[] = [
  column('List', {}, ({ id, name, description }) => (
    <span title={description ?? name}>
      <NameLink to="/audience/lists/$id" params={{ id }} name={name} note={description} />
    </span>
  )),
  column('Double opt-in', { width: '9rem', phone: 'none' }, ({ double_opt_in: isAsked }) => (isAsked ? 'On' : 'Off')),
  column('Welcome email', { width: '9rem', phone: 'none' }, ({ welcome_email_enabled: isEnabled }) =>
    isEnabled ? 'On' : 'Off',
  ),
  column('Contacts', { width: '7rem', isNumeric: true }, ({ contact_count: count }) => count.toLocaleString()),
  column('Created', { width: '9rem', phone: 'aside' }, ({ created_at: at }) => <Time iso={at} />),
]

export default function AudienceScreen() {
  const list = useList({ read: read.contactLists.list, isSteady: true })
  const navigate = useNavigate()
  return (
    <ListScreen
      title="Audience"
      list={list}
      columns={COLUMNS}
      noun="list"
      action={
        <DialogButton label="Create a list" needs="developer">
          {(close) => (
            <ListDialog
              onSaved={({ id }) => void navigate({ to: '/audience/lists/$id', params: { id } })}
              onClose={close}
            />
          )}
        </DialogButton>
      }
      navigation={<AudienceNavigation />}
      nothing={{
        title: 'Your contact lists will appear here',
        text: 'A list holds people who want mail of one kind, such as a newsletter. Broadcasts go to a list; the link in each mail leaves it.',
      }}
    />
  )
}

const route = getRouteApi('/audience/lists/$id')

const REFRESH_MS = 3000

type OpenDialog = 'add' | 'edit'

export function AudienceListScreen() {
  const { id } = route.useParams()
  const query = useData(read.contactLists.get(id))
  const [dialog, setDialog] = useState<OpenDialog>()
  // What one adds oneself is shown without being asked for.
  const [revision, setRevision] = useState(0)
  const close = () => setDialog(undefined)
  return (
    <RecordPage
      title={query.data?.name ?? 'List'}
      status={query.data && <span className="dimmed">{formatCount(query.data.contact_count, 'contact')}</span>}
      description={query.data?.description}
      action={
        query.data && (
          <>
            <Menu
              label="More actions"
              actions={[
                { label: 'Edit', needs: 'developer', onClick: () => setDialog('edit') },
                { label: 'Export', onClick: () => void download(read.contactLists.exportContacts(id).url) },
              ]}
            />
            <ActionLink variant="default" needs="developer" to="/audience/lists/$id/import" params={{ id }}>
              Import
            </ActionLink>
            <ActionButton needs="developer" onClick={() => setDialog('add')} label="Add a contact" />
          </>
        )
      }
      list={{ to: '/audience' }}
      listName="All lists"
      query={query}
    >
      {(list) => (
        <>
          <OpenImports listId={id} />
          <Contacts key={revision} contactList={list} onAdd={() => setDialog('add')} />
          <Section title="Details" action={<DeleteList list={list} />}>
            <ListFacts list={list} />
          </Section>
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
        </>
      )}
    </RecordPage>
  )
}

const DeleteList = ({ list }: { readonly list: ContactList }) => (
  <DeleteButton
    noun="list"
    typed={list.name}
    remove={() => api.contactLists.delete(list.id)}
    refreshes={[['contactLists', 'list'], 'signupForms']}
    leadsTo={{ to: '/audience' }}
  >
    {formatCount(list.contact_count, 'contact')} and the sign-up form of the list are deleted. People who left it stay
    on the suppression list. This cannot be undone.
  </DeleteButton>
)

const ListFacts = ({ list }: { readonly list: ContactList }) => (
  <Facts
    facts={[
      [
        'Double opt-in',
        list.double_opt_in ? 'On: new contacts are asked by email' : 'Off: contacts are added directly',
      ],
      ['Welcome email', list.welcome_email_enabled && `On: ${list.welcome_email_subject ?? 'from a template'}`],
      ['Created', <Time key="created" iso={list.created_at} />],
      ['Id', <CopyText key="id" value={list.id} what="id" />],
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
    <Notice tone="active" title="An import is running">
      {data.map(({ id, completed_items: done, failed_items: failed, total_items: total }) => (
        <div key={id}>
          {(done + failed).toLocaleString()} of {formatCount(total, 'line')}{' '}
          <InlineLink to="/audience/lists/$id/import" params={{ id: listId }} search={{ operation: id }}>
            Show it
          </InlineLink>
        </div>
      ))}
    </Notice>
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
      columns={toContactColumns(id)}
      noun="contact"
      empty={
        <EmptyState
          title="The contacts of this list will appear here"
          text="Add one here, import a CSV file, use a sign-up form, or add them from your program:"
          command={toCurl(`/v1/contact-lists/${id}/contacts`, body)}
        >
          <ActionButton needs="developer" onClick={onAdd} label="Add a contact" />
        </EmptyState>
      }
      advice="The search finds addresses that begin with the text, such as bob or bob@example.com."
    />
  )
}

const toContactColumns = (listId: string): readonly Column<Contact>[] => [
  column('Address', {}, ({ email }) => (
    <NameLink to="/audience/lists/$id/contacts/$email" params={{ id: listId, email }} name={email} title={email} />
  )),
  column('Status', { width: '14rem', phone: 'bare' }, ({ status }) => <StateLabel state={CONTACT_STATES[status]} />),
  column('Metadata', { phone: 'none' }, ({ metadata }) => <MetadataLine metadata={metadata} />),
  column('Added', { width: '9rem', phone: 'aside' }, ({ created_at: at }) => <Time iso={at} />),
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
          <Notice tone={GETS_MAIL.includes(added.status) ? 'good' : 'warning'} title={`${added.email} was added.`}>
            {CONTACT_STATES[added.status].word}. {CONTACT_STATES[added.status].title}
          </Notice>
        )}
      </div>
    </ConfirmDialog>
  )
}

interface ListDialogProps {
  readonly list?: ContactList
  onSaved?(list: ContactList): unknown
  onClose(): void
}

/** Creates a contact list, or changes its name, purpose and way of joining. */
const ListDialog = ({ list, onSaved, onClose }: ListDialogProps) => (
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
