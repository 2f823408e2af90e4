from .observer import Observer as Observer
