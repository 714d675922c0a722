import { Page } from '../parts/page.tsx'

export const BroadcastsScreen = () => <Page title="Broadcasts">Not built</Page>
