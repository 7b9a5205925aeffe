import { mount } from 'svelte';
import '../style.css';
import './live.css';
import Live from './Live.svelte';

mount(Live, { target: document.getElementById('app') as HTMLElement });
